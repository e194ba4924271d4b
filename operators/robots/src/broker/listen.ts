import { once } from "node:events";
import type { Server } from "node:net";
import { RobotsError } from "../robots-error.ts";

/**
 * Has `server` listen.
 *
 * **Errors**: {@link RobotsError} `CannotListen`, which names the address, the cause and the flag to change.
 */
export async function listen(server: Server, port: number, bindAddress: string): Promise<void> {
  try {
    server.listen(port, bindAddress);
    await once(server, "listening");
  } catch (error) {
    throw new RobotsError("CannotListen", `MQTT broker: ${explain(error as NodeJS.ErrnoException, port, bindAddress)}`, {
      cause: error,
    });
  }
}

function explain({ code, message }: NodeJS.ErrnoException, port: number, bindAddress: string): string {
  switch (code) {
    case "EADDRINUSE":
      return `port ${port} on ${bindAddress} is in use; choose another with --mqtt-port (0 picks a free one)`;
    case "EADDRNOTAVAIL":
      return `${bindAddress} is not an address of this machine; choose one with --mqtt-bind-address`;
    case "EACCES":
      return `this user may not open port ${port} on ${bindAddress}; choose one above 1023 with --mqtt-port`;
    default:
      return `cannot listen on ${bindAddress} port ${port}: ${message}`;
  }
}
