import { watch } from "node:fs";
import { type FileHandle, open, stat } from "node:fs/promises";
import type { Program } from "@keelson/execution";

/** Which part of a log is wanted. */
export interface LogOptions {
  readonly follow: boolean;
  readonly tailLines?: number;
  /** Begins at this byte of the current file, as {@link endOfLog} told it; instead of `tailLines`. */
  readonly from?: number;
  readonly limitBytes?: number;
  /** Milliseconds since the epoch: lines before that are left out. */
  readonly since?: number;
  /** Puts the time of each line before it. */
  readonly timestamps: boolean;
  readonly signal?: AbortSignal | undefined;
}

/** When the bytes of a log were written, as far as it was seen. */
export interface LogTimes {
  /** The time of the byte at `offset` of the current file. Milliseconds since the epoch. */
  at(offset: number): number;
}

const chunkBytes = 64 * 1024;
const newline = 0x0a;

async function sizeOf(path: string): Promise<number> {
  return stat(path).then(
    ({ size }) => size,
    () => 0,
  );
}

/** Where the log of a program ends now. */
export function endOfLog(program: Program): Promise<number> {
  return sizeOf(program.logs.stdout);
}

/** Files of a log that are there, the oldest first. */
async function logFiles(path: string): Promise<string[]> {
  const files = [path];
  for (let index = 1; index < 10 && (await sizeOf(`${path}.${index}`)) > 0; index++) files.unshift(`${path}.${index}`);
  return files;
}

/** Where the last `lines` lines begin: a file and an offset in it. Reads from the end, as much as is needed. */
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
          // The newline that ends the last line begins none.
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

/** The bytes of a program's log: what is there, then what comes, until the program ends or the reader goes. */
export async function* readLog(program: Program, options: LogOptions, times: LogTimes): AsyncGenerator<Uint8Array> {
  const path = program.logs.stdout;
  const files = await logFiles(path);
  let start = { file: 0, offset: 0 };
  if (options.from !== undefined) start = { file: files.length - 1, offset: options.from };
  else if (options.tailLines !== undefined) start = await startOfTail(files, options.tailLines);
  let left = options.limitBytes ?? Number.POSITIVE_INFINITY;
  const shape = options.timestamps || options.since !== undefined ? new LineFilter(options, times) : undefined;
  const cut = (bytes: Uint8Array): Uint8Array => {
    const part = bytes.length > left ? bytes.subarray(0, left) : bytes;
    left -= part.length;
    return part;
  };
  for (let file = start.file; file < files.length - 1; file++) {
    for await (const { bytes } of readFrom(files[file] ?? "", file === start.file ? start.offset : 0)) {
      const shaped = shape === undefined ? bytes : shape.take(bytes, 0);
      if (shaped.length > 0) yield cut(shaped);
      if (left <= 0) return;
    }
  }
  let offset = start.file === files.length - 1 ? start.offset : 0;
  for (;;) {
    // Asked before reading: what is written until the end is read after it.
    const hasEnded = program.state.kind === "exited";
    const waiter = options.follow && !hasEnded ? changeOf(path, program, options.signal) : undefined;
    try {
      if ((await sizeOf(path)) < offset) offset = 0;
      for await (const { bytes, at } of readFrom(path, offset)) {
        const shaped = shape === undefined ? bytes : shape.take(bytes, at);
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
  const rest = shape?.end();
  if (rest !== undefined && rest.length > 0) yield cut(rest);
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

/** Waits until a log may have grown, its program has ended, or the reader has gone. */
function changeOf(
  path: string,
  program: Program,
  signal: AbortSignal | undefined,
): { readonly changed: Promise<void>; close(): void } {
  let tell: () => void = () => {};
  const changed = new Promise<void>((resolve) => {
    tell = resolve;
  });
  let watcher: ReturnType<typeof watch> | undefined;
  try {
    watcher = watch(path, { persistent: false }, () => tell());
    watcher.on("error", () => tell());
  } catch {
    tell();
  }
  program.exited().then(tell, tell);
  signal?.addEventListener("abort", tell, { once: true });
  return {
    changed,
    close() {
      watcher?.close();
      signal?.removeEventListener("abort", tell);
    },
  };
}

/** Whole lines with their times, or without those that are too old. */
class LineFilter {
  readonly #options: LogOptions;
  readonly #times: LogTimes;
  #rest: Buffer = Buffer.alloc(0);
  #restAt = 0;

  constructor(options: LogOptions, times: LogTimes) {
    this.#options = options;
    this.#times = times;
  }

  take(bytes: Uint8Array, at: number): Uint8Array {
    const data = this.#rest.length === 0 ? Buffer.from(bytes) : Buffer.concat([this.#rest, bytes]);
    let lineAt = this.#rest.length === 0 ? at : this.#restAt;
    const out: Buffer[] = [];
    let begin = 0;
    for (let end = data.indexOf(newline); end >= 0; end = data.indexOf(newline, begin)) {
      this.#line(data.subarray(begin, end + 1), lineAt, out);
      lineAt += end + 1 - begin;
      begin = end + 1;
    }
    this.#rest = data.subarray(begin);
    this.#restAt = lineAt;
    return Buffer.concat(out);
  }

  end(): Uint8Array {
    const out: Buffer[] = [];
    if (this.#rest.length > 0) this.#line(this.#rest, this.#restAt, out);
    return Buffer.concat(out);
  }

  #line(line: Buffer, offset: number, out: Buffer[]): void {
    const at = this.#times.at(offset);
    if (this.#options.since !== undefined && at < this.#options.since) return;
    if (this.#options.timestamps) out.push(Buffer.from(`${new Date(at).toISOString().replace("Z", "000000Z")} `));
    out.push(line);
  }
}
