// The request handlers of Apache Iceberg's REST test server behind web servers of our own, on 127.0.0.1 alone.
//
// Run from source: java -cp <jars of jars.lock> CatalogServer.java WAREHOUSE_DIRECTORY PORT PORT PORT
// The first port has a catalog that plans scans in its answer, the second one that plans them in the background and
// hands out one file per plan task, the third one that keeps everything, files too, in memory.

import java.nio.file.Path;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.Scan;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.inmemory.InMemoryCatalog;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.compression.gzip.GzipCompression;
import org.eclipse.jetty.compression.server.CompressionConfig;
import org.eclipse.jetty.compression.server.CompressionHandler;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.http.UriCompliance;
import org.eclipse.jetty.server.HttpConfiguration;
import org.eclipse.jetty.server.HttpConnectionFactory;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;

public class CatalogServer {
  public static void main(String[] arguments) throws Exception {
    Path warehouse = Path.of(arguments[0]);
    start(arguments[1], new RESTCatalogAdapter(onDisk(warehouse.resolve("at-once"))));
    start(arguments[2], new InBackground(onDisk(warehouse.resolve("later"))));
    start(arguments[3], new RESTCatalogAdapter(inMemory()));
  }

  private static void start(String port, RESTCatalogAdapter handlers) throws Exception {
    Server server = new Server();
    HttpConfiguration http = new HttpConfiguration();
    // Jetty would refuse a name with a slash, a percent sign or a control character before the catalog sees it.
    http.setUriCompliance(UriCompliance.UNSAFE);
    ServerConnector connector = new ServerConnector(server, new HttpConnectionFactory(http));
    connector.setHost("127.0.0.1");
    connector.setPort(Integer.parseInt(port));
    server.addConnector(connector);

    ServletContextHandler routes = new ServletContextHandler();
    routes.getServletHandler().setDecodeAmbiguousURIs(true);
    routes.addServlet(new ServletHolder(new RESTCatalogServlet(handlers)), "/*");
    CompressionHandler compressed = new CompressionHandler(routes);
    compressed.putCompression(new GzipCompression());
    compressed.putConfiguration("/*", CompressionConfig.builder().build());
    server.setHandler(compressed);
    server.start();
  }

  private static Catalog onDisk(Path warehouse) {
    Map<String, String> properties =
        Map.of(
            "type", "jdbc",
            "uri", "jdbc:sqlite::memory:",
            "jdbc.schema-version", "V1",
            // A second connection would see a second, empty database.
            "clients", "1",
            "warehouse", warehouse.toUri().toString());
    return CatalogUtil.buildIcebergCatalog(warehouse.getFileName().toString(), properties, new Configuration());
  }

  private static Catalog inMemory() {
    InMemoryCatalog catalog = new InMemoryCatalog();
    catalog.initialize("memory", Map.of("warehouse", "memory:/warehouse"));
    return catalog;
  }

  private static final class InBackground extends RESTCatalogAdapter {
    private InBackground(Catalog catalog) {
      super(catalog);
    }

    @Override
    protected PlanningBehavior planningBehavior() {
      return new PlanningBehavior() {
        @Override
        public boolean shouldPlanTableScanAsync(Scan<?, FileScanTask, ?> scan) {
          return true;
        }

        @Override
        public int numberFileScanTasksPerPlanTask() {
          return 1;
        }
      };
    }
  }
}
