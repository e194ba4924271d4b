import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";

/** A server on the loopback interface. */
export interface HttpServer extends AsyncDisposable {
  /** Host and port. */
  readonly address: string;
}

/** Starts an HTTP server on a free port. */
export async function serveHttp(listener: RequestListener): Promise<HttpServer> {
  const server = createServer(listener);
  // A busy client must not send on a connection that the server has just closed.
  server.keepAliveTimeout = 0;
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    address: `127.0.0.1:${port}`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}
