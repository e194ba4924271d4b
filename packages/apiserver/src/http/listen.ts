import type { Server } from "node:https";

/** The server could not listen. `code` is that of the system call; the message says how to fix it. */
class ListenError extends Error {
  readonly code: string;

  constructor(message: string, cause: NodeJS.ErrnoException) {
    super(message, { cause });
    this.name = "ListenError";
    this.code = cause.code ?? "";
  }
}

/**
 * Listens on an address and port.
 *
 * **Errors**: rejects with a {@link ListenError} that says what to do if the port is in use or may not be opened.
 */
export function listen(server: Server, port: number, address: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const onError = (error: NodeJS.ErrnoException): void => reject(new ListenError(messageOf(error, port, address), error));
    server.once("error", onError);
    server.listen({ port, host: address }, () => {
      server.off("error", onError);
      resolve();
    });
  });
}

function messageOf(error: NodeJS.ErrnoException, port: number, address: string): string {
  switch (error.code) {
    case "EADDRINUSE":
      return `port ${port} on ${address} is in use: stop the program that uses it, or choose another port with --api-port (0 picks a free one)`;
    case "EACCES":
      return `not allowed to listen on port ${port}: ports below 1024 need privileges; choose another with --api-port`;
    case "EADDRNOTAVAIL":
      return `${address} is not an address of this machine: choose another bind address`;
    default:
      return error.message;
  }
}
