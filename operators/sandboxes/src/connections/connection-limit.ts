import type { Socket } from "node:net";

/** The client of connections that have not authenticated. */
const unauthenticated = "";

/** What identifies a connection, also below TLS and HTTP/2, whose sockets are other objects. */
type Endpoint = Pick<Socket, "remoteAddress" | "remotePort">;

const keyOf = ({ remoteAddress, remotePort }: Endpoint): string => `${remoteAddress ?? ""} ${remotePort ?? 0}`;

/**
 * Limits the connections of a server, fairly among its clients. Beyond the maximum, the oldest connection of the client with most of them is
 * closed, so that no client keeps others out. Connections that have not authenticated count as those of one client: an honest
 * one authenticates in milliseconds. They are closed first if several clients have the most.
 */
export class ConnectionLimit {
  readonly #max: number;
  readonly #sockets = new Map<string, { readonly socket: Socket; client: string }>();
  /** Keys of the connections of each client, oldest first. */
  readonly #clients = new Map<string, Set<string>>();

  constructor(max: number) {
    this.#max = max;
  }

  /** Counts a new connection, until it closes. */
  add(socket: Socket): void {
    const key = keyOf(socket);
    this.#sockets.set(key, { socket, client: unauthenticated });
    this.#keysOf(unauthenticated).add(key);
    socket.once("close", () => this.#sockets.get(key)?.socket === socket && this.#remove(key));
    while (this.#sockets.size > this.#max) this.#closeOne();
  }

  /** Notes who the client of a connection is, which has authenticated. */
  assign(socket: Endpoint, client: string): void {
    const key = keyOf(socket);
    const found = this.#sockets.get(key);
    if (found === undefined || found.client === client) return;
    this.#forget(key, found.client);
    found.client = client;
    this.#keysOf(client).add(key);
  }

  /** Closes all connections. */
  closeAll(): void {
    for (const { socket } of this.#sockets.values()) socket.destroy();
  }

  #closeOne(): void {
    const weightOf = ([client, { size }]: readonly [string, ReadonlySet<string>]): number =>
      size + (client === unauthenticated ? 0.5 : 0);
    const [largest] = [...this.#clients].sort((one, other) => weightOf(other) - weightOf(one));
    const [key] = largest?.[1] ?? [];
    if (key === undefined) return;
    const found = this.#sockets.get(key);
    this.#remove(key);
    found?.socket.destroy();
  }

  #keysOf(client: string): Set<string> {
    const keys = this.#clients.get(client) ?? new Set();
    this.#clients.set(client, keys);
    return keys;
  }

  #remove(key: string): void {
    const found = this.#sockets.get(key);
    this.#sockets.delete(key);
    if (found !== undefined) this.#forget(key, found.client);
  }

  #forget(key: string, client: string): void {
    const keys = this.#clients.get(client);
    keys?.delete(key);
    if (keys?.size === 0) this.#clients.delete(client);
  }
}
