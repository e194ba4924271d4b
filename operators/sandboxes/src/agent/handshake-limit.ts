import type { Server } from "node:https";
import type { Socket } from "node:net";

/** Maximum number of connections that have not authenticated. */
const maxHandshakes = 128;

/**
 * Limits the connections of a server that have not completed their TLS handshake, so that clients without a key cannot exhaust its
 * descriptors. The oldest one is closed first: an honest client completes its handshake in milliseconds.
 */
export function limitHandshakes(server: Server, max: number = maxHandshakes): void {
  const pending = new Map<string, Socket>();
  const keyOf = (socket: Socket): string => `${socket.remoteAddress ?? ""} ${socket.remotePort ?? 0}`;
  server.on("connection", (socket: Socket) => {
    const key = keyOf(socket);
    pending.set(key, socket);
    socket.once("close", () => pending.get(key) === socket && pending.delete(key));
    // A Map iterates in insertion order, oldest first.
    for (const [oldest, connection] of pending) {
      if (pending.size <= max) break;
      pending.delete(oldest);
      connection.destroy();
    }
  });
  server.on("secureConnection", (socket: Socket) => void pending.delete(keyOf(socket)));
}
