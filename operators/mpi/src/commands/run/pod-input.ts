import { randomBytes } from "node:crypto";
import { fstatSync } from "node:fs";
import { once } from "node:events";
import type { Duplex, Readable } from "node:stream";
import type { ObjectKey } from "@keelson/api-machinery";
import type { UpgradingTransport } from "@keelson/client";

/** Channels of the remote command protocol (KEP-4006). */
const stdinChannel = 0;
const closeChannel = 255;
const protocols = ["v5.channel.k8s.io", "v4.channel.k8s.io"] as const;

const binaryFrame = 0x82;
const closeFrame = 0x88;

/** Options of {@link sendPodInput}. */
export interface PodInputOptions {
  readonly transport: UpgradingTransport;
  readonly pod: ObjectKey;
  readonly container: string;
  readonly input: Readable;
  readonly signal: AbortSignal;
}

/**
 * Sends `input` to the standard input of a container, and its end. Resolves when all of it was sent, or when the container has ended.
 *
 * **Errors**: a StatusError if the API server rejects the request; the signal's reason.
 */
export async function sendPodInput({ transport, pod, container, input, signal }: PodInputOptions): Promise<void> {
  const { namespace = "default", name } = pod;
  const { socket, headers } = await transport.upgrade({
    method: "GET",
    path: `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(name)}/attach`,
    query: { container, stdin: "true" },
    headers: {
      "sec-websocket-key": randomBytes(16).toString("base64"),
      "sec-websocket-version": "13",
      "sec-websocket-protocol": protocols.join(", "),
    },
    protocol: "websocket",
    signal,
  });
  const closed = new AbortController();
  // Nothing is requested from the container but its end.
  socket.on("error", () => {}).on("close", () => closed.abort());
  socket.resume();
  const stop = AbortSignal.any([signal, closed.signal]);
  try {
    for await (const chunk of untilAborted(input, stop)) await send(socket, [stdinChannel], chunk, stop);
    // Before version 5 of the protocol, only the end of the connection ends the input.
    if (headers["sec-websocket-protocol"] === protocols[0])
      await send(socket, [closeChannel, stdinChannel], Buffer.alloc(0), stop);
    else socket.write(frame(closeFrame, Buffer.alloc(0)));
    if (!stop.aborted) await once(socket, "close", { signal });
  } catch (error) {
    if (!closed.signal.aborted) throw error;
  } finally {
    socket.destroy();
  }
  signal.throwIfAborted();
}

/** When a command forwards its standard input. */
export type InputMode = "auto" | "always" | "never";

/** Whether to forward the standard input: `auto` forwards pipes and files, but no terminal, because a program in the background must not read it. */
export function forwardsInput(mode: InputMode, descriptor = 0): boolean {
  if (mode !== "auto") return mode === "always";
  try {
    const stat = fstatSync(descriptor);
    return stat.isFIFO() || stat.isFile() || stat.isSocket();
  } catch {
    return false; // Closed.
  }
}

async function* untilAborted(input: Readable, signal: AbortSignal): AsyncGenerator<Buffer> {
  const end = (): void => void input.destroy();
  signal.addEventListener("abort", end, { once: true });
  try {
    for await (const chunk of input) yield Buffer.from(chunk as Uint8Array);
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    signal.removeEventListener("abort", end);
  }
}

async function send(socket: Duplex, head: readonly number[], data: Uint8Array, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  if (!socket.write(frame(binaryFrame, Buffer.concat([Buffer.from(head), data])))) await once(socket, "drain", { signal });
}

/** A masked WebSocket frame (RFC 6455, section 5.2). */
function frame(first: number, payload: Buffer): Buffer {
  const { length } = payload;
  const head = Buffer.alloc(length < 126 ? 2 : length < 65_536 ? 4 : 10);
  head[0] = first;
  if (length < 126) head[1] = 0x80 | length;
  else if (length < 65_536) {
    head[1] = 0x80 | 126;
    head.writeUInt16BE(length, 2);
  } else {
    head[1] = 0x80 | 127;
    head.writeBigUInt64BE(BigInt(length), 2);
  }
  const mask = randomBytes(4);
  return Buffer.concat([head, mask, payload.map((byte, index) => byte ^ (mask[index & 3] ?? 0))]);
}
