import { createServer, connect as connectTls, type TLSSocket } from "node:tls";
import type { AddressInfo, Socket } from "node:net";
import type { Clock, Timer } from "@keelson/api-machinery/time";

/*
 * The connection between a worker and its launcher: TLS with the job's token as the pre-shared key (RFC 5489), so that both
 * sides prove that they know it and nobody else reads or writes on the way; a JSON value a line. Each side says "alive" every
 * second, and takes silence for the other's end.
 */

/** How often each side says that it is there. */
export const heartbeatIntervalMs = 1000;
/** How long a side may be silent. */
export const silenceLimitMs = 5000;

const maxLineLength = 1024 * 1024;
const handshakeLimitMs = 10_000;
const security = {
  ciphers: "ECDHE-PSK-CHACHA20-POLY1305",
  // Pre-shared keys without certificates are a matter of TLS 1.2 in Node.
  minVersion: "TLSv1.2",
  maxVersion: "TLSv1.2",
} as const;
const identity = "keelson-mpi-worker";

/** An authenticated connection. */
export interface Channel {
  send(message: object): void;
  /** Says what is left to say and closes. */
  close(): void;
}

/** What happens on a {@link Channel}. */
export interface ChannelEvents {
  onMessage(message: unknown): void;
  /** Once: the other side is gone, or was silent for too long, or said something that is no JSON. */
  onClose(reason: string): void;
}

/** A launcher's open door. */
export interface ChannelServer {
  readonly port: number;
  close(): void;
}

/** Waits for workers. Whoever does not know the token is sent away and does no harm. */
export function listenForChannels(options: {
  readonly host: string;
  readonly port: number;
  readonly token: string;
  readonly clock: Clock;
  readonly onChannel: (channel: Channel) => ChannelEvents;
}): Promise<ChannelServer> {
  const { host, port, token, clock, onChannel } = options;
  const psk = Buffer.from(token);
  const server = createServer({
    ...security,
    handshakeTimeout: handshakeLimitMs,
    pskCallback: (_, name) => (name === identity ? psk : null),
  });
  // Connections that have not shown that they know the token. They end with the server; the others say goodbye first.
  const strangers = new Map<string, Socket>();
  const nameOf = (socket: Socket): string => `${socket.remoteAddress} ${socket.remotePort}`;
  server.on("connection", (socket: Socket) => {
    const name = nameOf(socket);
    strangers.set(name, socket);
    socket.once("close", () => strangers.delete(name));
  });
  server.on("secureConnection", (socket) => {
    strangers.delete(nameOf(socket));
    open(socket, clock, onChannel);
  });
  // Strangers, and probes that only look whether the port is open.
  server.on("tlsClientError", (_, socket) => socket.destroy());
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen({ host, port, backlog: 1024 }, () => {
      server.off("error", reject);
      const close = (): void => {
        server.close();
        for (const stranger of strangers.values()) stranger.destroy();
      };
      resolve({ port: (server.address() as AddressInfo).port, close });
    });
  });
}

/** Connects to a launcher. Rejects where it is not there or does not know the token. */
export function openChannel(options: {
  readonly host: string;
  readonly port: number;
  readonly token: string;
  readonly clock: Clock;
  readonly onChannel: (channel: Channel) => ChannelEvents;
}): Promise<void> {
  const { host, port, token, clock, onChannel } = options;
  return new Promise((resolve, reject) => {
    const socket = connectTls({
      ...security,
      host,
      port,
      checkServerIdentity: () => undefined,
      pskCallback: () => ({ psk: Buffer.from(token), identity }),
    });
    const timer = clock.setTimer(handshakeLimitMs, () => socket.destroy(new Error("it does not answer")));
    socket.once("error", (error) => {
      timer.cancel();
      reject(error);
    });
    socket.once("secureConnect", () => {
      timer.cancel();
      open(socket, clock, onChannel);
      resolve();
    });
  });
}

function open(socket: TLSSocket, clock: Clock, onChannel: (channel: Channel) => ChannelEvents): void {
  let closeReason: string | undefined;
  let rest = "";
  let beat: Timer;
  let silence: Timer;
  const send = (message: object): void => void (socket.writable && socket.write(`${JSON.stringify(message)}\n`));
  const end = (reason: string): void => {
    closeReason ??= reason;
    socket.destroy();
  };
  const armBeat = (): void => {
    beat = clock.setTimer(heartbeatIntervalMs, () => {
      send({ type: "alive" });
      armBeat();
    });
  };
  const armSilence = (): void => {
    silence = clock.setTimer(silenceLimitMs, () => end(`it was silent for ${silenceLimitMs / 1000} s`));
  };
  const events = onChannel({ send, close: () => void socket.end() });
  armBeat();
  armSilence();
  socket.setNoDelay(true);
  socket.setEncoding("utf8");
  socket.on("data", (text: string) => {
    silence.cancel();
    armSilence();
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    if (rest.length > maxLineLength) return end("it sent a line without end");
    for (const line of lines) {
      let message: unknown;
      try {
        message = JSON.parse(line);
      } catch {
        return end("it sent something that is no JSON");
      }
      events.onMessage(message);
    }
  });
  socket.on("error", (error) => {
    closeReason ??= error.message;
  });
  socket.on("close", () => {
    beat.cancel();
    silence.cancel();
    events.onClose(closeReason ?? "its connection was closed");
  });
}
