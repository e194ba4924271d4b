import { chmod, mkdir, rm, stat } from "node:fs/promises";
import type { Server as PlainServer } from "node:http";
import type { Server } from "node:https";
import { dirname } from "node:path";

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

/** Size of `sun_path` on Linux without the terminating zero. */
const maxSocketPathBytes = 107;

/**
 * Listens on a Unix socket that only this user can reach. Other users cannot enter its directory, so there is no moment at which they could
 * connect.
 *
 * **Errors**: those of the file system, `ENAMETOOLONG` if the path exceeds 107 bytes, and `EPERM` if the directory exists and other users can
 * enter it. The server is closed then.
 */
export async function listenOnSocket(server: PlainServer, path: string): Promise<void> {
  if (Buffer.byteLength(path) > maxSocketPathBytes) {
    const cause = Object.assign(new Error("path too long"), { code: "ENAMETOOLONG" });
    throw new ListenError(`${path}: the path of a Unix socket must have at most ${maxSocketPathBytes} bytes`, cause);
  }
  await ensurePrivateFolder(dirname(path));
  await rm(path, { force: true });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(path, () => {
      server.off("error", reject);
      resolve();
    });
  });
  try {
    await chmod(path, 0o600);
  } catch (error) {
    server.close();
    throw error;
  }
}

/** Creates a directory that only this user can enter. The mode of an existing directory is not changed: others may rely on it. */
async function ensurePrivateFolder(folder: string): Promise<void> {
  const created = await mkdir(folder, { recursive: true, mode: 0o700 });
  const { uid, mode } = await stat(folder);
  const isOwn = process.getuid === undefined || uid === process.getuid();
  if (created !== undefined || (isOwn && (mode & 0o777) === 0o700)) return;
  const cause = Object.assign(new Error("directory not private"), { code: "EPERM" });
  throw new ListenError(`${folder}: must belong to this user with mode 0700`, cause);
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

/** The host in a URL that reaches a server listening on `bindAddress` from this machine. */
export function reachableHost(bindAddress: string): string {
  if (bindAddress === "0.0.0.0") return "127.0.0.1";
  const address = bindAddress === "::" ? "::1" : bindAddress;
  return address.includes(":") ? `[${address}]` : address;
}
