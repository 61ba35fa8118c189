import java.util.*;

/** Answers requests of users whose sessions it holds, as a web shop does. */
public class java_session_store {
    record Session(long user, byte[] basket, List<String> pages) {}

    static int option(String[] args, String name, int otherwise) {
        int at = Arrays.asList(args).indexOf(name);
        return at < 0 ? otherwise : Integer.parseInt(args[at + 1]);
    }

    public static void main(String[] args) {
        int most = option(args, "--max-sessions", 1_000);
        int requests = option(args, "--requests", 600_000);
        int basketKb = option(args, "--session-kb", 256);
        Runtime runtime = Runtime.getRuntime();
        System.out.printf("%s %s, %d processors, max heap %d MB%n", System.getProperty("java.vm.name"),
            System.getProperty("java.vm.version"), runtime.availableProcessors(), runtime.maxMemory() >> 20);
        Map<Long, Session> sessions = new LinkedHashMap<>() {
            @Override protected boolean removeEldestEntry(Map.Entry<Long, Session> eldest) { return size() > most; }
        };
        Random random = new Random(1);
        long bytes = 0;
        for (int request = 0; request < requests; request++) {
            long user = random.nextInt(12_500);
            Session session = sessions.get(user);
            if (session == null) {
                session = new Session(user, new byte[basketKb << 10], new ArrayList<>());
                sessions.put(user, session);
            }
            if (session.pages().size() < 20) session.pages().add("/item/" + random.nextInt());
            StringBuilder page = new StringBuilder();
            for (int n = 0; n < 40; n++) page.append("<li>").append(random.nextInt()).append("</li>");
            bytes += page.toString().getBytes().length;
            if (request % 2_000 == 0) {
                long used = (runtime.totalMemory() - runtime.freeMemory()) >> 20;
                System.out.printf("INFO  round %d requests=%d sessions=%d heap used=%dM committed=%dM%n",
                    request / 2_000, request, sessions.size(), used, runtime.totalMemory() >> 20);
            }
        }
        System.out.println("INFO  shut down after " + requests + " requests, " + bytes + " bytes sent");
    }
}
