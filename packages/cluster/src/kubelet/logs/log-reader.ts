import { type FileHandle, open, stat } from "node:fs/promises";
import type { Program } from "@keelson/execution";
import { LineFilter, type LogTimes, newline } from "./line-filter.ts";
import { LogChanges } from "./log-changes.ts";

/** Options of {@link readLog}. */
export interface LogOptions {
  readonly follow: boolean;
  readonly tailLines?: number;
  /** Starts at this byte of the current file (see {@link endOfLog}) instead of `tailLines`. */
  readonly from?: number;
  readonly limitBytes?: number;
  /** Milliseconds since the epoch: earlier lines are omitted. */
  readonly since?: number;
  /** Prefixes each line with its time. */
  readonly timestamps: boolean;
  readonly signal?: AbortSignal | undefined;
}

const chunkBytes = 64 * 1024;

async function sizeOf(path: string): Promise<number> {
  return stat(path).then(
    ({ size }) => size,
    () => 0,
  );
}

/** The current end of a program's log, in bytes. */
export function endOfLog(program: Program): Promise<number> {
  return sizeOf(program.logs.stdout);
}

/** The existing files of a log, oldest first. */
async function logFiles(path: string): Promise<string[]> {
  const files = [path];
  for (let index = 1; index < 10 && (await sizeOf(`${path}.${index}`)) > 0; index++) files.unshift(`${path}.${index}`);
  return files;
}

/** Finds the start of the last `lines` lines: a file and an offset. Reads backwards and stops when it is found. */
async function startOfTail(
  files: readonly string[],
  lines: number,
): Promise<{ readonly file: number; readonly offset: number }> {
  let missing = lines;
  let isEnd = true;
  if (lines <= 0) return { file: files.length - 1, offset: await sizeOf(files.at(-1) ?? "") };
  for (let file = files.length - 1; file >= 0; file--) {
    const handle = await open(files[file] ?? "", "r").catch(() => undefined);
    if (handle === undefined) continue;
    try {
      let { size: position } = await handle.stat();
      while (position > 0) {
        const length = Math.min(chunkBytes, position);
        position -= length;
        const { buffer, bytesRead } = await handle.read(Buffer.alloc(length), 0, length, position);
        for (let index = bytesRead - 1; index >= 0; index--) {
          if (buffer[index] !== newline) {
            isEnd = false;
            continue;
          }
          // The trailing newline does not start a line.
          if (isEnd) {
            isEnd = false;
            continue;
          }
          missing--;
          if (missing === 0) return { file, offset: position + index + 1 };
        }
      }
    } finally {
      await handle.close();
    }
  }
  return { file: 0, offset: 0 };
}

/** Reads a program's log and, with `follow`, continues until the program exits or `signal` fires. */
export async function* readLog(program: Program, options: LogOptions, times: LogTimes): AsyncGenerator<Uint8Array> {
  const path = program.logs.stdout;
  const files = await logFiles(path);
  let start = { file: 0, offset: 0 };
  if (options.from !== undefined) start = { file: files.length - 1, offset: options.from };
  else if (options.tailLines !== undefined) start = await startOfTail(files, options.tailLines);
  let left = options.limitBytes ?? Number.POSITIVE_INFINITY;
  const filter = options.timestamps || options.since !== undefined ? new LineFilter(options, times) : undefined;
  const cut = (bytes: Uint8Array): Uint8Array => {
    const part = bytes.length > left ? bytes.subarray(0, left) : bytes;
    left -= part.length;
    return part;
  };
  for (let file = start.file; file < files.length - 1; file++) {
    for await (const { bytes } of readFrom(files[file] ?? "", file === start.file ? start.offset : 0)) {
      const shaped = filter === undefined ? bytes : filter.push(bytes, 0);
      if (shaped.length > 0) yield cut(shaped);
      if (left <= 0) return;
    }
  }
  let offset = start.file === files.length - 1 ? start.offset : 0;
  using changes = options.follow ? new LogChanges(path, program, options.signal) : undefined;
  for (;;) {
    // Checked before reading, so that everything written before the exit is read.
    const hasEnded = program.state.kind === "exited";
    const waiter = hasEnded ? undefined : changes?.listen();
    try {
      if ((await sizeOf(path)) < offset) offset = 0;
      for await (const { bytes, at } of readFrom(path, offset)) {
        const shaped = filter === undefined ? bytes : filter.push(bytes, at);
        offset = at + bytes.length;
        if (shaped.length > 0) yield cut(shaped);
        if (left <= 0) return;
      }
      if (waiter === undefined || options.signal?.aborted === true) break;
      await waiter.changed;
    } finally {
      waiter?.close();
    }
  }
}

async function* readFrom(path: string, offset: number): AsyncGenerator<{ readonly bytes: Uint8Array; readonly at: number }> {
  let handle: FileHandle;
  try {
    handle = await open(path, "r");
  } catch {
    return;
  }
  try {
    for (let position = offset; ; ) {
      const { buffer, bytesRead } = await handle.read(Buffer.allocUnsafe(chunkBytes), 0, chunkBytes, position);
      if (bytesRead === 0) return;
      yield { bytes: buffer.subarray(0, bytesRead), at: position };
      position += bytesRead;
    }
  } finally {
    await handle.close();
  }
}
