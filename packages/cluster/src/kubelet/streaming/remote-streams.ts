import { PassThrough, Readable, Writable } from "node:stream";
import type { Status } from "@keelson/api-machinery";
import { SpdyConnection, type SpdyStream } from "./spdy-connection.ts";
import { acceptSpdy, type Agreement, type SupportedProtocols, type UpgradeRequest } from "./upgrade.ts";
import { acceptWebSocket, type WebSocketEnd } from "./websocket.ts";
import { StreamError } from "./stream-error.ts";

/** The first protocol, in which the error channel has text, and nothing after a success. */
const firstProtocol = "channel.k8s.io";

/** The protocols of exec and attach. */
export const remoteCommandProtocols: SupportedProtocols = {
  websocket: ["v5.channel.k8s.io", "v4.channel.k8s.io", firstProtocol],
  spdy: ["v4.channel.k8s.io"],
};

/** The streams that a client requests. */
export interface RequestedStreams {
  readonly stdin: boolean;
  readonly stdout: boolean;
  readonly stderr: boolean;
  readonly tty: boolean;
}

/** A client's terminal or pipes, independent of the protocol. */
export interface RemoteStreams {
  /** Ends when the client's input does. */
  readonly stdin: Readable;
  readonly stdout: Writable;
  readonly stderr: Writable;
  /** Terminal sizes as JSON lines, `{"Width":80,"Height":24}`. */
  readonly sizes: Readable;
  /** Resolves when the client has disconnected or `finish` was sent. */
  readonly closed: Promise<void>;
  /** Sends the final status after all output, and closes. */
  finish(status: Status): void;
}

/** Parses the streams of a query. */
export function requestedStreams(query: URLSearchParams): RequestedStreams {
  const is = (name: string): boolean => ["true", "1"].includes(query.get(name) ?? "");
  const tty = is("tty");
  // A terminal has a single output stream.
  return { stdin: is("stdin"), stdout: is("stdout"), stderr: is("stderr") && !tty, tty };
}

/** Switches protocols and waits until the client has opened its streams. Rejects if it disconnects before. */
export function remoteStreams(request: UpgradeRequest, agreed: Agreement, requested: RequestedStreams): Promise<RemoteStreams> {
  return agreed.over === "websocket"
    ? Promise.resolve(webSocketStreams(request, agreed))
    : spdyStreams(request, agreed.protocol, requested);
}

const channels = { stdin: 0, stdout: 1, stderr: 2, error: 3, resize: 4, close: 255 } as const;

/** Each message starts with the number of its channel (KEP-4006). */
function webSocketStreams(
  { socket, head }: UpgradeRequest,
  agreed: { readonly key: string; readonly protocol: string },
): RemoteStreams {
  let peer: WebSocketEnd | undefined;
  const message = (channel: number, data: Uint8Array): Buffer => Buffer.concat([Buffer.from([channel]), data]);
  const output = (channel: number): Writable =>
    new Writable({
      write(chunk: Buffer, _encoding, done) {
        if (peer === undefined || peer.send(message(channel, chunk))) done();
        else void peer.drained().then(() => done());
      },
    });
  const stdin = new Readable({ read: () => peer?.resume() });
  const sizes = new PassThrough();
  const stdout = output(channels.stdout);
  const stderr = output(channels.stderr);
  let onClosed = (): void => {};
  const closed = new Promise<void>((resolve) => (onClosed = resolve));
  peer = acceptWebSocket(socket, head, agreed, {
    message(data) {
      const channel = data[0];
      if (channel === channels.stdin) {
        if (!stdin.readableEnded && !stdin.destroyed && !stdin.push(data.subarray(1))) peer?.pause();
      } else if (channel === channels.close && data[1] === channels.stdin) stdin.push(null);
      else if (channel === channels.resize) sizes.write(data.subarray(1));
    },
    closed() {
      if (!stdin.readableEnded) stdin.destroy();
      onClosed();
    },
  });
  return {
    stdin,
    stdout,
    stderr,
    sizes,
    closed,
    finish(status) {
      const text = agreed.protocol === firstProtocol ? firstStatus(status) : JSON.stringify(status);
      if (text !== "") peer?.send(message(channels.error, Buffer.from(text)));
      peer?.close(1000);
    },
  };
}

function firstStatus({ status, message = "" }: Status): string {
  return status === "Success" ? "" : message;
}

/** Each channel is a SPDY stream, named by its header `streamtype`. */
async function spdyStreams(request: UpgradeRequest, protocol: string, requested: RequestedStreams): Promise<RemoteStreams> {
  const wanted = ["error", ...(["stdin", "stdout", "stderr"] as const).filter((name) => requested[name])];
  if (requested.tty) wanted.push("resize");
  const streams = new Map<string, SpdyStream>();
  const { promise, resolve } = gate();
  const connection = new SpdyConnection(acceptSpdy(request, protocol), (stream) => {
    streams.set(stream.headers["streamtype"] ?? "", stream);
    if (wanted.every((name) => streams.has(name))) resolve();
  });
  await Promise.race([promise, connection.closed]);
  const error = streams.get("error");
  if (error === undefined || !wanted.every((name) => streams.has(name))) {
    throw new StreamError("Closed", "client disconnected before it opened its streams");
  }
  const discard = (): Writable => new Writable({ write: (_chunk, _encoding, done) => done() });
  const stdout = streams.get("stdout") ?? discard();
  const stderr = streams.get("stderr") ?? discard();
  return {
    stdin: streams.get("stdin") ?? Readable.from([]),
    stdout,
    stderr,
    sizes: streams.get("resize") ?? Readable.from([]),
    closed: connection.closed,
    finish(status) {
      stdout.end();
      stderr.end();
      error.end(JSON.stringify(status), () => connection.close());
    },
  };
}

function gate(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  let resolve = (): void => {};
  const promise = new Promise<void>((settle) => (resolve = settle));
  return { promise, resolve };
}
