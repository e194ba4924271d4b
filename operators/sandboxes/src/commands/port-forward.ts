import { once } from "node:events";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import type { CommandContext, CommandDefinition } from "@keelson/operator";
import { UsageError } from "@keelson/operator/flags";
import { whenWritable } from "../protocol/when-writable.ts";
import { type Connection, connectionFlags, runWith } from "./connection.ts";

/** A local port and the port of the sandbox that it leads to. */
interface PortPair {
  /** 0 picks a free one. */
  readonly local: number;
  readonly remote: number;
}

/** Parses `PORT` or `LOCAL:PORT`. Throws a {@link UsageError}. */
export function parsePortPair(text: string): PortPair {
  const match = /^(?:(\d{0,5}):)?(\d{1,5})$/.exec(text);
  const remote = Number(match?.[2]);
  const local = match?.[1] === undefined ? remote : Number(match[1]);
  if (match === null || remote < 1 || remote > 65_535 || local > 65_535)
    throw new UsageError(`PORT: ${JSON.stringify(text)} must be PORT or LOCAL:PORT, such as 8080 or 3000:8080`);
  return { local, remote };
}

/** `keelson sandbox port-forward`: listens on this machine and forwards connections to exposed ports of a sandbox. */
export const portForwardCommand: CommandDefinition = {
  name: "port-forward",
  description: "forward local ports to exposed ports of a sandbox: keelson sandbox port-forward NAME 3000:8080",
  args: ["NAME", "[PORT...]"],
  flags: connectionFlags,
  run: (context) =>
    runWith(context, async (connection) => {
      const [sandboxName = "", ...texts] = context.args;
      if (texts.length === 0) throw new UsageError("PORT: required, as in: port-forward NAME 8080");
      const pairs = texts.map(parsePortPair);
      // Fails now if the sandbox does not exist, and not with the first connection.
      await connection.fastPath.getSandbox({ sandboxName, namespace: connection.namespace }, { signal: context.signal });
      await using forwards = new PortForwards(connection, context, sandboxName);
      for (const pair of pairs) await forwards.listen(pair);
      if (!context.signal.aborted) await once(context.signal, "abort");
      return 0;
    }),
};

class PortForwards implements AsyncDisposable {
  readonly #connection: Connection;
  readonly #context: CommandContext;
  readonly #sandboxName: string;
  readonly #servers: Server[] = [];
  readonly #sockets = new Set<Socket>();

  constructor(connection: Connection, context: CommandContext, sandboxName: string) {
    this.#connection = connection;
    this.#context = context;
    this.#sandboxName = sandboxName;
  }

  async listen({ local, remote }: PortPair): Promise<void> {
    const { stderr, stdout } = this.#context;
    const server = createServer({ allowHalfOpen: true }, (socket) => {
      this.#forward(socket, remote).catch((error: unknown) => {
        socket.destroy();
        if (!this.#context.signal.aborted) stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
      });
    });
    server.listen(local, "127.0.0.1");
    try {
      await once(server, "listening");
    } catch (error) {
      throw new UsageError(`could not listen on 127.0.0.1:${local}: ${error instanceof Error ? error.message : String(error)}`);
    }
    this.#servers.push(server);
    stdout.write(`Forwarding from 127.0.0.1:${(server.address() as AddressInfo).port} -> ${remote}\n`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await Promise.all(this.#servers.map((server) => new Promise((resolve) => server.close(resolve))));
  }

  async #forward(socket: Socket, port: number): Promise<void> {
    const { ports, namespace } = this.#connection;
    const control = new AbortController();
    this.#sockets.add(socket);
    socket.on("error", () => socket.destroy());
    socket.once("close", () => {
      this.#sockets.delete(socket);
      control.abort();
    });
    const start = { sandboxName: this.#sandboxName, namespace, port };
    async function* requests() {
      yield { request: { case: "start" as const, value: start } };
      for await (const data of socket.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>)
        yield { request: { case: "data" as const, value: data } };
    }
    try {
      for await (const { data } of ports.connect(requests(), { signal: control.signal })) {
        if (!socket.write(data)) await whenWritable(socket);
      }
      socket.end();
    } catch (error) {
      if (!control.signal.aborted) throw error;
    }
  }
}
