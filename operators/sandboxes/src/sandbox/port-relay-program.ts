import { connect, Socket } from "node:net";

/* Runs in the network namespace of a sandbox. Connects what the agent hands over to a port of the sandbox's loopback. */

process.title = "keelson-port-relay";

/** Loopback addresses, in the order of attempts. */
const addresses = ["127.0.0.1", "::1"];

let connections = 0;

/** Reports the number of connections to the agent. */
function count(change: number): void {
  connections += change;
  process.send?.({ connections });
}

process.on("message", (message: unknown, socket: unknown) => {
  const port = typeof message === "object" && message !== null && "port" in message ? Number(message.port) : 0;
  if (!(socket instanceof Socket)) return;
  // Each direction ends by itself: a client that has sent its request may still wait for the answer.
  socket.allowHalfOpen = true;
  count(1);
  // A socket can emit several errors, and one without a listener ends the process.
  socket.on("error", () => {});
  socket.once("close", () => count(-1));
  forward(socket, port, addresses);
});

function forward(client: Socket, port: number, [host, ...rest]: readonly string[]): void {
  if (host === undefined) {
    client.destroy();
    return;
  }
  const server = connect({ host, port, allowHalfOpen: true });
  server.once("connect", () => {
    server.off("error", retry);
    client.pipe(server);
    server.pipe(client);
    // Either end takes the other one with it.
    const close = (): void => {
      client.destroy();
      server.destroy();
    };
    for (const each of [client, server]) each.on("error", close).once("close", close);
  });
  const retry = (): void => forward(client, port, rest);
  server.once("error", retry).on("error", () => {});
}

// The agent has exited or the sandbox has.
process.once("disconnect", () => process.exit(0));
