import java.nio.ByteBuffer;
import java.util.LinkedHashMap;
import java.util.Map;

/** Looks words up in segments of an index that are held off the heap. */
class SegmentReader {
    static int option(String[] args, String name, int otherwise) {
        for (int i = 0; i + 1 < args.length; i++) if (args[i].equals(name)) return Integer.parseInt(args[i + 1]);
        return otherwise;
    }

    static ByteBuffer load(int segment, int bytes) {
        ByteBuffer buffer = ByteBuffer.allocateDirect(bytes);
        for (int at = 0; at < bytes; at += 4096) buffer.put(at, (byte) (segment + at));
        return buffer;
    }

    public static void main(String[] args) {
        int segments = option(args, "--segments", 48);
        int cached = option(args, "--cached-segments", 28);
        int bytes = option(args, "--segment-mb", 16) << 20;
        Map<Integer, ByteBuffer> open = new LinkedHashMap<>(16, 0.75f, true) {
            @Override
            protected boolean removeEldestEntry(Map.Entry<Integer, ByteBuffer> eldest) {
                return size() > cached;
            }
        };
        System.out.printf("index of %d segments of %d MB, cache of %d%n", segments, bytes >> 20, cached);
        long sum = 0;
        for (int query = 0; query < segments * 4; query++) {
            int at = query % 3 == 0 ? query / 4 : query % (query / 4 + 1);
            ByteBuffer segment = open.computeIfAbsent(at, it -> load(it, bytes));
            for (int i = 0; i < bytes; i += 65536) sum += segment.get(i);
            if (query % 8 == 0) System.out.printf("batch %d: %d segments open%n", query / 8, open.size());
        }
        System.out.println("answered, checksum " + sum);
    }
}
