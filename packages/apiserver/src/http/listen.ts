import type { Server } from "node:https";

/**
 * Listens on an address and port.
 *
 * @throws Error that says what to do when the port is in use or may not be opened.
 */
export function listen(server: Server, port: number, address: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const onError = (error: NodeJS.ErrnoException): void => reject(listenError(error, port, address));
    server.once("error", onError);
    server.listen({ port, host: address }, () => {
      server.off("error", onError);
      resolve();
    });
  });
}

function listenError(error: NodeJS.ErrnoException, port: number, address: string): Error {
  switch (error.code) {
    case "EADDRINUSE":
      return new Error(
        `port ${port} on ${address} is in use by another program: stop that program, or choose another port with --api-port (0 picks a free one)`,
        { cause: error },
      );
    case "EACCES":
      return new Error(
        `not allowed to listen on port ${port}: ports below 1024 need privileges; choose another with --api-port`,
        {
          cause: error,
        },
      );
    case "EADDRNOTAVAIL":
      return new Error(`${address} is no address of this machine: choose another bind address`, { cause: error });
    default:
      return error;
  }
}
