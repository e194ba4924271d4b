import type { Duplex } from "node:stream";
import type { TerminalSize } from "@keelson/execution";
import { AgentError } from "./agent-error.ts";
import { whenWritable } from "./when-writable.ts";

/*
 * Frames of an exec connection, in both directions: a channel (1 byte), a length (4 bytes, big-endian) and the data. Channel numbers
 * match Kubernetes' remotecommand protocol where it defines them.
 */

/** Name of the protocol in an `Upgrade` header. */
export const execProtocol = "keelson-exec";

/**
 * Channels. `exit` is the last frame: JSON {@link ExecEnd}. `resize` is JSON {@link TerminalSize}. `gap`, for followed processes only, is the
 * number of bytes that were dropped.
 */
export const execChannels = { stdin: 0, stdout: 1, stderr: 2, exit: 3, resize: 4, closeStdin: 5, gap: 6 } as const;

/** How a command terminated: its exit code (128 + n for a signal), or why it could not be run. */
export interface ExecEnd {
  readonly exitCode: number;
  readonly message?: string;
}

/** Bytes of one channel. */
export interface ExecFrame {
  readonly channel: number;
  readonly data: Buffer;
}

const headerBytes = 5;
const maxFrameBytes = 1 << 20;

/** Encodes a frame. */
export function encodeFrame(channel: number, data: Uint8Array): Buffer {
  const header = Buffer.alloc(headerBytes);
  header.writeUInt8(channel);
  header.writeUInt32BE(data.length, 1);
  return Buffer.concat([header, data]);
}

/** Whether an untrusted value is a terminal size. */
export function isTerminalSize(value: unknown): value is TerminalSize {
  const { columns, rows } = (value ?? {}) as Record<string, unknown>;
  return [columns, rows].every((count) => Number.isInteger(count) && Number(count) >= 1 && Number(count) <= 10_000);
}

/** Decodes frames until the connection ends, with backpressure. Throws `FrameTooLarge` for a frame above 1 MiB. */
export async function* readFrames(chunks: AsyncIterable<Buffer>, head: Buffer = Buffer.alloc(0)): AsyncGenerator<ExecFrame> {
  let rest = head;
  const take = function* (): Generator<ExecFrame> {
    while (rest.length >= headerBytes) {
      const length = rest.readUInt32BE(1);
      if (length > maxFrameBytes)
        throw new AgentError("FrameTooLarge", `frame of ${length} bytes exceeds ${maxFrameBytes} bytes`);
      if (rest.length < headerBytes + length) return;
      const frame = { channel: rest.readUInt8(0), data: rest.subarray(headerBytes, headerBytes + length) };
      rest = rest.subarray(headerBytes + length);
      yield frame;
    }
  };
  yield* take();
  for await (const chunk of chunks) {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    yield* take();
  }
}

/** Sends a frame; resolves when the other end keeps up or has closed. */
export async function sendFrame(socket: Duplex, channel: number, data: Uint8Array): Promise<void> {
  if (socket.destroyed || socket.writableEnded) return;
  if (!socket.write(encodeFrame(channel, data))) await whenWritable(socket);
}
