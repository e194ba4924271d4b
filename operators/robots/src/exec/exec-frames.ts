import type { Readable } from "node:stream";

/** Value of the header `Upgrade` of exec connections. */
export const execProtocol = "keelson-robots-exec";

/** The only DNS name in the certificate of the exec server. No other certificate of the robots' authority contains it. */
export const execServerName = "keelson-robots-exec";

/** Maximum data of a frame. */
export const maxFrameBytes = 64 * 1024;

/** Types of frames. `start`, `resize`, `exit`, `error` and `notice` contain JSON. */
export const frameTypes = {
  ...{ start: 0, stdin: 1, endStdin: 2, resize: 3, stdout: 4, stderr: 5, exit: 6, error: 7 },
  /** A message for the user; more follows. */
  notice: 8,
} as const;

/** Type of a frame. */
export type FrameType = keyof typeof frameTypes;

/** A unit of an exec connection: one byte with the type, four with the length, and the data. */
export interface Frame {
  readonly type: FrameType;
  readonly data: Buffer;
}

const headBytes = 5;

/** Serializes a frame. */
export function encodeFrame(type: FrameType, data: Uint8Array = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(headBytes);
  head[0] = frameTypes[type];
  head.writeUInt32BE(data.length, 1);
  return Buffer.concat([head, data]);
}

/**
 * The frames that a connection receives until it closes. **Errors**: throws at an unknown type, and at a frame of more than
 * {@link maxFrameBytes}.
 */
export async function* readFrames(source: Readable, head: Buffer = Buffer.alloc(0)): AsyncGenerator<Frame> {
  let rest = head;
  for (const frame of split(rest)) {
    rest = rest.subarray(headBytes + frame.data.length);
    yield frame;
  }
  for await (const chunk of untilClosed(source)) {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    for (const frame of split(rest)) {
      rest = rest.subarray(headBytes + frame.data.length);
      yield frame;
    }
  }
}

/** The data of a stream. A close without an end is an end. */
async function* untilClosed(source: Readable): AsyncGenerator<Buffer> {
  try {
    for await (const chunk of source) yield Buffer.from(chunk as Uint8Array);
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "ERR_STREAM_PREMATURE_CLOSE")) throw error;
  }
}

/** The complete frames at the beginning of `bytes`. */
function* split(bytes: Buffer): Generator<Frame> {
  let from = 0;
  while (bytes.length - from >= headBytes) {
    const type = typeOf(bytes[from]);
    const length = bytes.readUInt32BE(from + 1);
    if (type === undefined || length > maxFrameBytes) throw new Error("not a valid frame");
    const end = from + headBytes + length;
    if (bytes.length < end) return;
    yield { type, data: bytes.subarray(from + headBytes, end) };
    from = end;
  }
}

function typeOf(code: number | undefined): FrameType | undefined {
  for (const [type, value] of Object.entries(frameTypes)) if (value === code) return type as FrameType;
  return undefined;
}
