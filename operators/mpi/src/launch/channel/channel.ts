import { createServer, connect as connectTls, type TLSSocket } from "node:tls";
import type { AddressInfo, Socket } from "node:net";
import type { Clock, Timer } from "@keelson/api-machinery/time";

/*
 * The connection between a worker and its launcher: TLS with the job's token as the pre-shared key (RFC 5489), which authenticates both
 * sides, and one JSON value per line. Each side sends "alive" twice a second and closes the connection if the other is silent.
 */

/** Interval of `alive` messages. */
const heartbeatIntervalMs = 500;
/** Maximum time between two messages. */
const silenceTimeoutMs = 3000;

const maxLineLength = 1024 * 1024;
/** A launcher on a busy machine answers a thousand workers one after another. */
const handshakeTimeoutMs = 30_000;
const security = {
  ciphers: "ECDHE-PSK-CHACHA20-POLY1305",
  // Node supports pre-shared keys without certificates only with TLS 1.2.
  minVersion: "TLSv1.2",
  maxVersion: "TLSv1.2",
} as const;
const identity = "keelson-mpi-worker";

/** An authenticated connection. */
export interface Channel {
  send(message: object): void;
  /** Sends pending messages and closes. */
  close(): void;
}

/** Handlers of a {@link Channel}. */
export interface ChannelEvents {
  onMessage(message: unknown): void;
  /** Called once: the other side disconnected, was silent for too long, or sent invalid JSON. */
  onClose(reason: string): void;
}

/** A launcher's listener. */
export interface ChannelServer {
  readonly port: number;
  close(): void;
}

/** Listens for workers. A client without the token is disconnected. */
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
    handshakeTimeout: handshakeTimeoutMs,
    pskCallback: (_, name) => (name === identity ? psk : null),
  });
  // Connections that are not authenticated yet. They are destroyed with the server; the others close gracefully.
  const pending = new Map<string, Socket>();
  const nameOf = (socket: Socket): string => `${socket.remoteAddress} ${socket.remotePort}`;
  server.on("connection", (socket: Socket) => {
    const name = nameOf(socket);
    pending.set(name, socket);
    socket.once("close", () => pending.delete(name));
  });
  server.on("secureConnection", (socket) => {
    pending.delete(nameOf(socket));
    open(socket, clock, onChannel);
  });
  // Clients without the token, and TCP probes.
  server.on("tlsClientError", (_, socket) => socket.destroy());
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen({ host, port, backlog: 1024 }, () => {
      server.off("error", reject);
      const close = (): void => {
        server.close();
        for (const socket of pending.values()) socket.destroy();
      };
      resolve({ port: (server.address() as AddressInfo).port, close });
    });
  });
}

/** Connects to a launcher. Rejects if there is none or it does not have the token. */
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
    const timer = clock.setTimer(handshakeTimeoutMs, () => socket.destroy(new Error("no answer")));
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
    silence = clock.setTimer(silenceTimeoutMs, () => end(`no message for ${silenceTimeoutMs / 1000} s`));
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
    if (rest.length > maxLineLength) return end("it sent a line that is too long");
    for (const line of lines) {
      let message: unknown;
      try {
        message = JSON.parse(line);
      } catch {
        return end("it sent invalid JSON");
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
    events.onClose(closeReason ?? "the connection was closed");
  });
}
