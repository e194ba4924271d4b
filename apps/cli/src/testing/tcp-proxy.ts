import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";

/** A TCP proxy that a test can interrupt, like a robot's radio link. */
export interface TcpProxy extends AsyncDisposable {
  readonly port: number;
  /** Drops all connections and rejects new ones until {@link restore}. */
  cut(): void;
  restore(): void;
}

/** Starts a proxy to a port on this machine. */
export async function startTcpProxy(targetPort: number): Promise<TcpProxy> {
  const sockets = new Set<Socket>();
  let isCut = false;
  const server = createServer((client) => {
    if (isCut) {
      client.destroy();
      return;
    }
    const target = connect(targetPort, "127.0.0.1");
    for (const [from, to] of [
      [client, target],
      [target, client],
    ] as const) {
      sockets.add(from);
      from.setNoDelay(true);
      from.pipe(to);
      from.on("error", () => {});
      from.on("close", () => {
        sockets.delete(from);
        to.destroy();
      });
    }
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  const drop = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    port: typeof address === "object" && address !== null ? address.port : 0,
    cut() {
      isCut = true;
      drop();
    },
    restore() {
      isCut = false;
    },
    async [Symbol.asyncDispose]() {
      drop();
      server.close();
      await once(server, "close");
    },
  };
}
