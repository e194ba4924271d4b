import type { Socket } from "node:net";

/** The connections of a server. Beyond a maximum, those that have not authenticated give way to new ones, oldest first. */
export class Connections {
  readonly #max: number;
  readonly #all = new Set<Socket>();
  /** Connections that have not authenticated, by their remote address and port, oldest first. */
  readonly #unauthenticated = new Map<string, Socket>();

  constructor(max: number) {
    this.#max = max;
  }

  /** Adds a connection. Returns false if it was closed, because all others have authenticated. */
  admit(socket: Socket): boolean {
    const remote = remoteOf(socket);
    this.#all.add(socket);
    this.#unauthenticated.set(remote, socket);
    socket.on("close", () => {
      this.#all.delete(socket);
      if (this.#unauthenticated.get(remote) === socket) this.#unauthenticated.delete(remote);
    });
    if (this.#all.size <= this.#max) return true;
    const [oldest] = this.#unauthenticated.values();
    // A closed socket leaves later, and must not be chosen again.
    if (oldest !== undefined) this.#forget(oldest);
    return oldest !== socket;
  }

  /** Handles that the client of a connection, or of the TLS connection over it, has authenticated. */
  authenticated(socket: Socket): void {
    this.#unauthenticated.delete(remoteOf(socket));
  }

  closeAll(): void {
    for (const socket of this.#all) socket.destroy();
  }

  #forget(socket: Socket): void {
    this.#all.delete(socket);
    this.#unauthenticated.delete(remoteOf(socket));
    socket.on("error", () => {});
    socket.destroy();
  }
}

function remoteOf({ remoteAddress = "", remotePort = 0 }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
