import { createServer, type Server, type Socket } from "node:net";
import { Pod, Service } from "@keelson/api-machinery/kinds";
import { type Client, createClient, createHttpTransport, type HttpTransportOptions } from "@keelson/client";
import { openPodPort, type PodPort } from "@keelson/cluster/port-forward";
import { choosePod, type ForwardTarget, podPort, type PortPair } from "./forward-target.ts";

/** Options of {@link forwardPorts}. */
export interface ForwardOptions {
  readonly transport: HttpTransportOptions;
  readonly namespace: string;
  readonly target: ForwardTarget;
  readonly pairs: readonly PortPair[];
  /** Local addresses to listen on. */
  readonly addresses: readonly string[];
  /** Prints listening addresses and connections. */
  readonly print: (line: string) => void;
  /** Prints the error of a connection. */
  readonly printError: (line: string) => void;
  /** Stops forwarding and closes all connections. */
  readonly signal: AbortSignal;
}

/**
 * Listens on local ports and forwards each connection through the API server to a Pod's port until `signal` fires. A Service's Pod
 * is chosen at the start, and again once it is gone.
 *
 * **Errors**: rejects if the Pod does not exist or a local port is in use.
 */
export async function forwardPorts(options: ForwardOptions): Promise<void> {
  const { namespace, target, pairs, addresses, print, printError, signal } = options;
  const transport = createHttpTransport(options.transport);
  const client = createClient({ transport, fieldManager: "keelson" });
  const sockets = new Set<Socket>();
  const servers: Server[] = [];
  const connections = new Set<Promise<void>>();
  try {
    let pod = await resolvePorts(client, namespace, target, pairs);
    const open = async (index: number): ReturnType<typeof openPodPort> => {
      const to = (): PodPort => ({ namespace, pod: pod.name, port: pod.ports[index] ?? 0 });
      try {
        return await openPodPort(transport, to(), signal);
      } catch (error) {
        if (target.kind === "pod" || signal.aborted) throw error;
        pod = await resolvePorts(client, namespace, target, pairs);
        return openPodPort(transport, to(), signal);
      }
    };
    const connect = async (socket: Socket, index: number, local: number): Promise<void> => {
      sockets.add(socket);
      // The forwarded connection reports errors.
      socket.on("error", () => {}).once("close", () => sockets.delete(socket));
      print(`Handling connection for ${local}`);
      try {
        const problem = await (await open(index)).carry(socket);
        if (problem !== undefined) printError(problem);
      } catch (error) {
        if (!signal.aborted) printError(error instanceof Error ? error.message : String(error));
        socket.destroy();
      }
    };
    for (const [index, { local }] of pairs.entries()) {
      const remote = pod.ports[index] ?? 0;
      for (const address of addresses) {
        const server = createServer({ allowHalfOpen: true }, (socket) => {
          const carried = connect(socket, index, socket.localPort ?? 0).finally(() => connections.delete(carried));
          connections.add(carried);
        });
        servers.push(server);
        const port = await listen(server, address, local ?? remote);
        print(`Forwarding from ${address.includes(":") ? `[${address}]` : address}:${port} -> ${remote}`);
      }
    }
    await new Promise<void>((resolve) => {
      if (signal.aborted) resolve();
      else signal.addEventListener("abort", () => resolve(), { once: true });
    });
  } finally {
    for (const server of servers) server.close();
    for (const socket of sockets) socket.destroy();
    await Promise.allSettled(connections);
    await client.close();
    await transport.close();
  }
}

function listen(server: Server, host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once("error", (error) =>
      reject(new Error(`unable to listen on ${host}:${port}: ${error.message}`, { cause: error })),
    );
    server.listen({ host, port }, () => {
      const address = server.address();
      resolve(typeof address === "object" && address !== null ? address.port : port);
    });
  });
}

/** Resolves the target Pod and its port number for each pair. */
async function resolvePorts(
  client: Client,
  namespace: string,
  { kind, name }: ForwardTarget,
  pairs: readonly PortPair[],
): Promise<{ readonly name: string; readonly ports: readonly number[] }> {
  if (kind === "pod") {
    const pod = await client.get(Pod, { namespace, name });
    if (pod.status?.phase !== "Running")
      throw new Error(`unable to forward port because pod ${name} is not running. Current status=${pod.status?.phase}`);
    return { name, ports: pairs.map(({ remote }) => podPort(remote, pod)) };
  }
  const service = await client.get(Service, { namespace, name });
  const { items } = await client.list(Pod, { namespace });
  const pod = choosePod(service, items);
  if (pod === undefined) throw new Error(`service ${name} has no running Pod`);
  return { name: pod.metadata.name ?? "", ports: pairs.map(({ remote }) => podPort(remote, pod, service)) };
}
