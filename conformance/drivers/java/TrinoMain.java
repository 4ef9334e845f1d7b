/** The server's main: Trino's own is in an artifact that is not published everywhere, and is these two calls. */
public class TrinoMain {
    public static void main(String[] args) {
        new io.trino.server.Server().start(args[0]);
    }
}
