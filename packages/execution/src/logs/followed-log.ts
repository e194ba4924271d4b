import { type FSWatcher, watch } from "node:fs";
import { type FileHandle, open, stat } from "node:fs/promises";
import { type Clock, sleep } from "@keelson/api-machinery/time";
import type { Program } from "../driver.ts";

/**
 * A position in a log that survives rotation:
 *
 *     stdout.log.2 (inode 7)   stdout.log.1 (inode 9)   stdout.log
 *                              ^ { after: 7, offset }   ^ { after: 9, offset }
 *
 * Rotation copies the log to a new file and renames the older ones, so a file is known by the inode of the one before it. The oldest
 * file follows 0. Because of a log that has grown fast only the end is copied, and inodes are used again, the position is found by the
 * bytes before it.
 */
export interface LogPosition {
  readonly after: number;
  readonly offset: number;
  /** The last bytes before this position, in base64. */
  readonly last: string;
}

/** A part of a log. */
export interface LogPart {
  readonly data: Buffer;
  /** The position after this part. */
  readonly next: LogPosition;
}

/** Options of {@link readLog}. */
export interface ReadLogOptions {
  /** Continues until the program has exited. */
  readonly isFollowing: boolean;
  /** Begins with the last lines. Default: with the oldest line that is kept. */
  readonly tailLines?: number;
  /** Begins here instead. If rotation has removed what follows, with the oldest line that is kept. */
  readonly from?: LogPosition;
  readonly signal: AbortSignal;
  readonly clock: Clock;
}

const partBytes = 64 * 1024;
/** Rotated files beyond this number are not read. */
const maxRotated = 16;
/** Pause between two looks at a log that cannot be watched, or that is being rotated. */
const pauseMs = 200;
/** Looks at a log that is being rotated. */
const maxRotationChecks = 5;

/**
 * Reads a log of a program, beginning with the rotated files, without a gap or a repetition when it is rotated in the meantime. A reader that is so late
 * that rotation has removed what it would read next continues with the oldest line that is kept.
 */
export async function* readLog(
  program: Pick<Program, "onExit" | "state">,
  path: string,
  options: ReadLogOptions,
): AsyncGenerator<LogPart> {
  const { isFollowing, tailLines, from, signal } = options;
  let position = from ?? (tailLines === undefined ? start : await tailPosition(path, tailLines));
  using changes = new Changes(path, program, options);
  for (let looks = 0; !signal.aborted; ) {
    // Before the read: everything that was written before the exit is read.
    const isOver = !isFollowing || program.state.kind === "exited";
    const waiter = isOver ? undefined : changes.listen();
    try {
      const step = await readNext(path, position, looks);
      looks = step.kind === "rotating" ? looks + 1 : 0;
      if (step.kind === "rotating") await changes.pause();
      else if (step.kind === "end" && waiter === undefined) return;
      else if (step.kind === "end") await waiter?.changed;
      else {
        position = step.next;
        if (step.data !== undefined) yield { data: step.data, next: step.next };
      }
    } finally {
      waiter?.close();
    }
  }
}

type Step =
  | { readonly kind: "read"; readonly data?: Buffer; readonly next: LogPosition }
  | { readonly kind: "end" }
  /** Files are being renamed. */
  | { readonly kind: "rotating" };

async function readNext(path: string, position: LogPosition, looks: number): Promise<Step> {
  const rotated = await rotatedFiles(path);
  const oldest = rotated.findLastIndex((inode) => inode !== 0);
  const before = rotated.indexOf(position.after);
  const isKnown = position.after === 0 || before >= 0;
  // The file with the index 0 is that of the log itself, which follows the newest rotated one.
  const index = position.after === 0 || !isKnown ? oldest + 1 : before;
  const at = isKnown ? position : start;
  if (index === 0) return await readCurrent(path, at, looks);
  const inode = rotated[index - 1] ?? 0;
  if (inode === 0) return looks < maxRotationChecks ? { kind: "rotating" } : { kind: "read", next: start };
  const data = await readAt(`${path}.${index}`, at, inode);
  if (data === "missing") return { kind: "rotating" };
  if (data === "other") {
    // Only the end was copied, or it is a later file.
    return { kind: "read", next: { ...at, ...(await offsetAfter(`${path}.${index}`, at.last)) } };
  }
  if (data.length === 0) return { kind: "read", next: { ...start, after: inode } };
  return { kind: "read", data, next: positionAfter(at, data) };
}

async function readCurrent(path: string, at: LogPosition, looks: number): Promise<Step> {
  const { after, offset } = at;
  if (offset === 0 && after !== 0 && looks < maxRotationChecks && (await isCopied(path))) return { kind: "rotating" };
  const data = await readAt(path, at);
  const [size, newest] = [await sizeOf(path), await inodeOf(`${path}.1`)];
  // The read may have been of what was written after a rotation.
  if (newest !== after) return { kind: "read", next: at };
  if (data === "other" || size < offset + (data === "missing" ? 0 : data.length)) {
    return { kind: "read", next: { ...start, after } };
  }
  if (data === "missing" || data.length === 0) return { kind: "end" };
  return { kind: "read", data, next: positionAfter(at, data) };
}

/** The beginning of the oldest file. */
const start: LogPosition = { after: 0, offset: 0, last: "" };

/** Bytes by which a position is found. */
const lastBytes = 48;

function positionAfter({ after, offset, last }: LogPosition, data: Buffer): LogPosition {
  const end = Buffer.concat([Buffer.from(last, "base64"), data.subarray(-lastBytes)]).subarray(-lastBytes);
  return { after, offset: offset + data.length, last: end.toString("base64") };
}

/** The position in a file after the last occurrence of some bytes; its beginning if they are not in it. */
async function offsetAfter(path: string, last: string): Promise<Pick<LogPosition, "offset" | "last">> {
  await using file = await openFile(path);
  const bytes = Buffer.from(last, "base64");
  let found = -1;
  let rest = Buffer.alloc(0);
  for (let offset = 0; file !== undefined && bytes.length > 0; ) {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(partBytes), 0, partBytes, offset);
    if (bytesRead === 0) break;
    const window = Buffer.concat([rest, buffer.subarray(0, bytesRead)]);
    const index = window.lastIndexOf(bytes);
    if (index >= 0) found = offset - rest.length + index + bytes.length;
    rest = window.subarray(Math.max(window.length - bytes.length + 1, 0));
    offset += bytesRead;
  }
  return found < 0 ? { offset: 0, last: "" } : { offset: found, last };
}

/** Whether the log was copied by a rotation that has not truncated it yet. */
async function isCopied(path: string): Promise<boolean> {
  const rotatedSize = await sizeOf(`${path}.1`);
  if (rotatedSize === 0 || (await sizeOf(path)) < rotatedSize) return false;
  const [log, copy] = await Promise.all([readAt(path, start), readAt(`${path}.1`, start)]);
  return typeof log !== "string" && typeof copy !== "string" && log.equals(copy);
}

/** The inodes of the rotated files, newest first; 0 where there is none. */
async function rotatedFiles(path: string): Promise<readonly number[]> {
  const inodes: number[] = [];
  for (let index = 1; index <= maxRotated; index++) {
    const inode = await inodeOf(`${path}.${index}`);
    // A file may be missing while the others are renamed.
    if (inode === 0 && inodes.at(-1) === 0) break;
    inodes.push(inode);
  }
  return inodes;
}

/** Reads a part of a file. `missing`: the file does not exist or has a different inode. `other`: the position is beyond the file. */
async function readAt(path: string, { offset, last }: LogPosition, inode?: number): Promise<Buffer | "missing" | "other"> {
  await using file = await openFile(path);
  if (file === undefined || (inode !== undefined && (await file.stat()).ino !== inode)) return "missing";
  const before = Buffer.from(last, "base64");
  const from = offset - before.length;
  const length = before.length + partBytes;
  const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, from);
  if (bytesRead < before.length || !buffer.subarray(0, before.length).equals(before)) return "other";
  return buffer.subarray(before.length, bytesRead);
}

const openFile = (path: string): Promise<FileHandle | undefined> => open(path, "r").catch(() => undefined);

const sizeOf = (path: string): Promise<number> =>
  stat(path).then(
    ({ size }) => size,
    () => 0,
  );

const inodeOf = (path: string): Promise<number> =>
  stat(path).then(
    ({ ino }) => ino,
    () => 0,
  );

const newline = 0x0a;

/** The position of the last `lines` lines. Reads backwards and stops when it has found them. */
async function tailPosition(path: string, lines: number): Promise<LogPosition> {
  const rotated = await rotatedFiles(path);
  let missing = lines;
  let isEnd = true;
  for (let index = 0; index <= rotated.length; index++) {
    const after = rotated[index] ?? 0;
    await using file = await openFile(index === 0 ? path : `${path}.${index}`);
    let offset = file === undefined ? 0 : (await file.stat()).size;
    if (lines <= 0) return { after, offset, last: "" };
    while (file !== undefined && offset > 0) {
      const length = Math.min(partBytes, offset);
      offset -= length;
      const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, offset);
      for (let at = bytesRead - 1; at >= 0; at--) {
        // The last newline begins no line.
        if (buffer[at] === newline && !isEnd && --missing === 0) return { after, offset: offset + at + 1, last: "" };
        isEnd = false;
      }
    }
  }
  return start;
}

/** Reports changes of a log, and the end of its program or reader. */
class Changes {
  readonly #path: string;
  readonly #options: ReadLogOptions;
  readonly #forget: () => void;
  #notify: (() => void) | undefined;
  #isOver = false;
  readonly #end = (): void => {
    this.#isOver = true;
    this.#notify?.();
  };

  constructor(path: string, program: Pick<Program, "onExit">, options: ReadLogOptions) {
    this.#path = path;
    this.#options = options;
    this.#forget = program.onExit(this.#end);
    options.signal.addEventListener("abort", this.#end, { once: true });
  }

  /** Listens from now on. A flood of writes resolves it once. */
  listen(): { readonly changed: Promise<void>; close(): void } {
    const stopped = new AbortController();
    let watcher: FSWatcher | undefined;
    const changed = new Promise<void>((resolve) => {
      this.#notify = resolve;
      if (this.#isOver) resolve();
      try {
        watcher = watch(this.#path, { persistent: false }, () => resolve()).on("error", () => resolve());
      } catch {
        // The machine is out of inotify watches, or the log does not exist yet.
        void this.pause(stopped.signal).then(resolve);
      }
    });
    const close = (): void => {
      watcher?.close();
      stopped.abort();
      this.#notify = undefined;
    };
    return { changed, close };
  }

  async pause(stopped?: AbortSignal): Promise<void> {
    const { clock, signal } = this.#options;
    await sleep(clock, pauseMs, stopped === undefined ? signal : AbortSignal.any([signal, stopped])).catch(() => {});
  }

  [Symbol.dispose](): void {
    this.#forget();
    this.#options.signal.removeEventListener("abort", this.#end);
  }
}
