import java.util.*;

/** Sums events by customer: from a list of all of them, or one by one. */
public class java_heap {
    record Event(int id, String customer, double[] features) {}

    static Event read(int id) {
        return new Event(id, "customer-" + id % 5000, new double[100]);
    }

    public static void main(String[] args) {
        boolean stream = Arrays.asList(args).contains("--stream");
        Map<String, Double> sums = new HashMap<>();
        List<Event> events = new ArrayList<>();
        for (int id = 0; id < 200_000; id++) {
            Event event = read(id);
            if (stream) sums.merge(event.customer(), event.features()[0] + 1, Double::sum);
            else events.add(event);
            if (id % 20_000 == 0) System.out.println("batch " + id / 20_000 + " read");
        }
        for (Event event : events) sums.merge(event.customer(), event.features()[0] + 1, Double::sum);
        System.out.println(sums.size() + " customers");
    }
}
