import { writeFile, rename } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { connect as connectTls } from "node:tls";
import type { Clock } from "@keelson/api-machinery/time";
import type { ProgramTls, TlsMode } from "@keelson/middleware-agent";

/** Default of `--tls-port`. */
export const defaultTlsPort = 6_380;

/** How to reach servers with TLS. */
export interface RedisTls {
  /** Port with TLS, the same in all Pods of a Group. */
  readonly port: number;
  readonly mode: TlsMode;
  /** The trusted authorities in PEM, which may change. */
  readonly authorities: () => string;
}

/** Address of a server. */
export interface SocketAddress {
  readonly host: string;
  /** Port without TLS. */
  readonly port: number;
  /** Undefined: without TLS. */
  readonly tls?: RedisTls | undefined;
  /** Without `tls`: the port on which the server may accept connections with TLS. */
  readonly tlsPort?: number | undefined;
}

/** TLS of the programs of a Group. Undefined: without TLS. */
export function redisTls(tls: ProgramTls | undefined, port: number): RedisTls | undefined {
  return tls && { port, mode: tls.mode, authorities: () => tls.certificates.current.authorities };
}

/**
 * Connects to a server, with TLS unless its mode is `prefer` and nothing listens on its port with TLS. As the programs do when they
 * replicate, verifies the authority of the certificate and not its names. Rejects with the error of the network or of TLS: ECONNREFUSED
 * only if both ports refuse, whatever the mode: a server that does not use TLS yet, or that requires it already, listens on the other one.
 */
export async function openSocket(
  { host, port, tls, tlsPort }: SocketAddress,
  timeoutMs: number,
  clock: Clock,
): Promise<Socket> {
  const plain = (): Promise<Socket> => opened(connect({ host, port, noDelay: true }), "connect", timeoutMs, clock);
  try {
    return tls === undefined ? await plain() : await openSecure(host, tls, timeoutMs, clock);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ECONNREFUSED") throw error;
    if (tls?.mode === "prefer") return plain();
    const other = tls === undefined ? tlsPort : port;
    if (other !== undefined && (await isListening(host, other, timeoutMs)))
      throw new Error(`${tls === undefined ? "with" : "without"} TLS: port ${other} may accept connections`, { cause: error });
    throw error;
  }
}

function openSecure(host: string, { port, authorities }: RedisTls, timeoutMs: number, clock: Clock): Promise<Socket> {
  const socket = connectTls({ host, port, ca: authorities(), checkServerIdentity: () => undefined });
  socket.setNoDelay();
  return opened(socket, "secureConnect", timeoutMs, clock);
}

/** Waits for an event of a new socket. Rejects with its first error, or after the timeout. */
function opened(socket: Socket, event: "connect" | "secureConnect", timeoutMs: number, clock: Clock): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const timer = clock.setTimer(timeoutMs, () => socket.destroy(new Error(`no connection within ${timeoutMs} ms`)));
    // Stays attached: an error must not end the process before the caller listens. The socket emits `close` after it.
    socket.on("error", (error) => {
      timer.cancel();
      reject(error);
    });
    socket.once(event, () => {
      timer.cancel();
      resolve(socket);
    });
  });
}

/** Whether something listens at an address. Other failures than a refused connection count as well: they say nothing about TLS. */
export function isListening(host: string, port: number, timeoutMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: timeoutMs });
    const end = (listens: boolean): void => {
      socket.destroy();
      resolve(listens);
    };
    socket.once("connect", () => end(true));
    socket.once("timeout", () => end(true));
    socket.once("error", (error: NodeJS.ErrnoException) => end(error.code !== "ECONNREFUSED"));
  });
}

/** Paths of the files that a server reads its certificates from. */
export interface CertificateFiles {
  readonly authorities: string;
  readonly certificate: string;
  readonly key: string;
}

/** The files of a server in its directory. */
export const certificateFiles = (dataDir: string): CertificateFiles => ({
  authorities: join(dataDir, "tls-ca.crt"),
  certificate: join(dataDir, "tls.crt"),
  key: join(dataDir, "tls.key"),
});

/** Writes the current certificates. The server reads the files when it starts, and when one of their parameters is set. */
export async function writeCertificates(dataDir: string, { certificates }: ProgramTls): Promise<CertificateFiles> {
  const files = certificateFiles(dataDir);
  const { current } = certificates;
  for (const name of ["authorities", "certificate", "key"] as const) {
    await writeFile(`${files[name]}.new`, current[name], { mode: 0o600 });
    await rename(`${files[name]}.new`, files[name]);
  }
  return files;
}
