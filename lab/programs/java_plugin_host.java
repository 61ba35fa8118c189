import java.lang.management.ManagementFactory;
import java.lang.management.MemoryPoolMXBean;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.LocalTime;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import javax.tools.ToolProvider;

/** Watches a folder of plugins and loads them anew whenever a file there changes. */
class PluginHost {
    static final List<Object> listeners = new ArrayList<>();

    public static void main(String[] args) throws Exception {
        List<String> flags = List.of(args);
        Path folder = Path.of("plugins");
        if (flags.contains("--build")) {
            build(folder, 40);
            return;
        }
        int reloads = Integer.parseInt(flags.get(flags.indexOf("--reloads") + 1));
        boolean unregister = flags.contains("--unregister-on-unload");
        int changed = flags.contains("--only-changed") ? 2 : 40;
        List<String> names = new ArrayList<>();
        try (var files = Files.list(folder)) {
            files.map(it -> it.getFileName().toString()).filter(it -> it.endsWith(".class")).sorted()
                .forEach(it -> names.add(it.replace(".class", "")));
        }
        log("plugin host started, " + names.size() + " classes in " + folder.toAbsolutePath().getFileName());
        for (int reload = 1; reload <= reloads; reload++) {
            if (unregister) listeners.clear();
            URLClassLoader loader = new URLClassLoader(new URL[] {folder.toUri().toURL()}, PluginHost.class.getClassLoader());
            for (String name : names.subList(0, Math.min(names.size(), changed)))
                listeners.add(loader.loadClass(name).getDeclaredConstructor().newInstance());
            if (unregister) loader.close();
            if (reload % 10 == 0)
                log("job " + reload + ": plugins reloaded, " + listeners.size() + " listeners, metaspace " + metaspace() + " MB used");
        }
        log("stopped");
    }

    static long metaspace() {
        return ManagementFactory.getMemoryPoolMXBeans().stream().filter(it -> it.getName().equals("Metaspace"))
            .mapToLong(it -> it.getUsage().getUsed() >> 20).findFirst().orElse(0);
    }

    static void log(String text) {
        System.out.println(LocalTime.now().truncatedTo(ChronoUnit.MILLIS) + " INFO  [reloader] " + text);
    }

    static void build(Path folder, int count) throws Exception {
        Files.createDirectories(folder);
        List<String> words = new ArrayList<>(List.of("-d", folder.toString()));
        for (int n = 0; n < count; n++) {
            StringBuilder body = new StringBuilder("public class Plugin" + n + " implements Runnable {\n");
            for (int m = 0; m < 60; m++)
                body.append("  public String rule" + m + "(int a, String b) { return a > " + m + " ? b + \"rule-" + n + "-" + m + "\" : b.trim(); }\n");
            Path source = folder.resolve("Plugin" + n + ".java");
            Files.writeString(source, body + "  public void run() { }\n}\n");
            words.add(source.toString());
        }
        int status = ToolProvider.getSystemJavaCompiler().run(null, null, null, words.toArray(new String[0]));
        if (status != 0) throw new IllegalStateException("the plugins do not compile");
    }
}
