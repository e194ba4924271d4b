import { closeSync, constants, fdatasync, fdatasyncSync, openSync, readFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { crc32 } from "node:zlib";

/** The file with the newest acknowledged revision. */
export const highWaterMarkName = "high-water-mark";

const magic = 0x4b534831;
const slotBytes = 16;
/** Slots are sectors apart, so that one bad sector leaves the other. */
const slotDistance = 512;
const fileBytes = 2 * slotDistance;
/** How often the mark is flushed to disk. In between it survives the end of the process, but not power loss. */
const flushIntervalMs = 1_000;

/**
 * The newest revision that was acknowledged, kept apart from the data, so that lost commits are noticed and no revision is issued twice,
 * whatever is lost. Two slots are written in turn:
 *
 *     | "KSH1" | checksum 4 | revision 8 |
 */
export class HighWaterMark {
  readonly #file: number;
  readonly #isFlushed: boolean;
  readonly #now: () => number;
  #revision: number;
  #slot = 0;
  /** Reused for each commit. */
  readonly #content: SlotBuffer = createSlotBuffer();
  #flushedAtMs: number;
  #flushing: Promise<void> | undefined;

  /** Opens the file and creates it at `revision` if it is missing. `now` is in milliseconds. */
  constructor(dir: string, options: { readonly revision: number; readonly isFlushed: boolean; readonly now: () => number }) {
    const path = join(dir, highWaterMarkName);
    const revision = Math.max(readHighWaterMark(dir) ?? 0, options.revision);
    this.#file = openSync(path, constants.O_RDWR | constants.O_CREAT, 0o600);
    this.#isFlushed = options.isFlushed;
    this.#now = options.now;
    this.#revision = revision;
    this.#flushedAtMs = options.now();
    const content = Buffer.alloc(fileBytes);
    encodeSlot(this.#content, revision);
    for (const slot of [0, 1]) this.#content.slot.copy(content, slot * slotDistance);
    writeSync(this.#file, content, 0, content.length, 0);
    if (this.#isFlushed) fdatasyncSync(this.#file);
  }

  get revision(): number {
    return this.#revision;
  }

  /** Raises the mark to an acknowledged revision. */
  raise(revision: number): void {
    if (revision <= this.#revision) return;
    this.#revision = revision;
    this.#slot = 1 - this.#slot;
    try {
      encodeSlot(this.#content, revision);
      writeSync(this.#file, this.#content.slot, 0, slotBytes, this.#slot * slotDistance);
    } catch {
      // The commit is durable by now. A lower mark detects less damage and causes none.
    }
    const nowMs = this.#now();
    if (this.#isFlushed && nowMs >= this.#flushedAtMs + flushIntervalMs) this.#flush(nowMs);
  }

  async close(): Promise<void> {
    await this.#flushing;
    try {
      if (this.#isFlushed) fdatasyncSync(this.#file);
    } finally {
      closeSync(this.#file);
    }
  }

  #flush(nowMs: number): void {
    if (this.#flushing !== undefined) return;
    this.#flushedAtMs = nowMs;
    this.#flushing = new Promise((resolve) => {
      fdatasync(this.#file, () => {
        this.#flushing = undefined;
        resolve();
      });
    });
  }
}

/** Reads the mark of a directory; undefined if both slots are unreadable or the file is missing. */
export function readHighWaterMark(dir: string): number | undefined {
  let content: Buffer;
  try {
    content = readFileSync(join(dir, highWaterMarkName));
  } catch {
    return undefined;
  }
  const revisions = [0, 1].flatMap((slot) => decodeSlot(content, slot * slotDistance) ?? []);
  return revisions.length === 0 ? undefined : Math.max(...revisions);
}

/** A slot and the part that its checksum covers. */
interface SlotBuffer {
  readonly slot: Buffer;
  readonly checked: Buffer;
}

function createSlotBuffer(): SlotBuffer {
  const slot = Buffer.alloc(slotBytes);
  slot.writeUInt32BE(magic, 0);
  return { slot, checked: slot.subarray(8) };
}

function encodeSlot({ slot, checked }: SlotBuffer, revision: number): void {
  slot.writeDoubleBE(revision, 8);
  slot.writeUInt32BE(crc32(checked), 4);
}

function decodeSlot(content: Buffer, offset: number): number | undefined {
  if (offset + slotBytes > content.length || content.readUInt32BE(offset) !== magic) return undefined;
  const revision = content.readDoubleBE(offset + 8);
  return crc32(content.subarray(offset + 8, offset + slotBytes)) === content.readUInt32BE(offset + 4) ? revision : undefined;
}
