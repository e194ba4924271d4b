import { connect } from "node:net";
import { NodeError } from "./node-error.ts";

/**
 * The address of this machine on the way to an API server, as other machines of its network see it.
 *
 * **Errors**: {@link NodeError} if the server cannot be reached.
 */
export function addressTowards(server: string, timeoutMs = 10_000): Promise<string> {
  const { hostname, port, protocol } = new URL(server);
  const host = hostname.replace(/^\[(.*)\]$/, "$1");
  return new Promise((resolve, reject) => {
    const fail = (why: string): void => {
      socket.destroy();
      reject(
        new NodeError("NoAddress", `could not reach ${server} to determine this machine's address: ${why}; pass --address`),
      );
    };
    const socket = connect({ host, port: Number(port) || (protocol === "http:" ? 80 : 443) });
    socket.setTimeout(timeoutMs, () => fail(`no connection within ${timeoutMs / 1000} s`));
    socket.once("error", (error) => fail(error.message));
    socket.once("connect", () => {
      const { localAddress = "" } = socket;
      socket.destroy();
      resolve(localAddress.replace(/^::ffff:/, ""));
    });
  });
}

/** Whether an address is reachable only from this machine. API servers reject such addresses in Endpoints. */
export function isLoopback(address: string): boolean {
  return address.startsWith("127.") || address === "::1";
}
