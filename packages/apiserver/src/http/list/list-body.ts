import type { EncodedObject, ListOutcome, RemainingItems } from "../../endpoints/outcome.ts";
import type { EncodedBody } from "../encode.ts";

const comma = 0x2c;
const openBrace = 0x7b;
/** Parts of this size take half the CPU time of those of 64 KiB: most of the rest is spent per write. */
const partBytes = 256 * 1024;

const listStart = (head: string): Buffer => Buffer.from(`${head.slice(0, -1)},"items":[`);
const listEnd = Buffer.from("]}");

/** Joins the items' stored bytes into a list. No item is parsed, and only one part of 256 KiB exists at a time. */
export function joinItems(head: string, items: readonly EncodedObject[], itemSkip: number): EncodedBody {
  const start = listStart(head);
  let bytes = start.length + listEnd.length + Math.max(items.length - 1, 0);
  for (const item of items) bytes += itemBytes(item.bytes, itemSkip);
  return {
    bytes,
    *parts() {
      const writer = new ItemWriter(itemSkip, bytes);
      yield start;
      for (const item of items) {
        writer.add(item.bytes);
        yield* writer.takeFull();
      }
      yield* writer.takeRest();
      yield listEnd;
    },
  };
}

/** Like {@link joinItems}, for a list whose remaining items are read while it is sent. */
export function streamItems(head: string, { items, itemSkip }: ListOutcome, remaining: RemainingItems): EncodedBody {
  return {
    bytes: undefined,
    async *parts() {
      const writer = new ItemWriter(itemSkip, partBytes);
      yield listStart(head);
      for (const item of items) {
        writer.add(item.bytes);
        yield* writer.takeFull();
      }
      for await (const _ of remaining.copy?.(writer.add) ?? addSlices(remaining, writer.add)) yield* writer.takeFull();
      yield* writer.takeRest();
      yield listEnd;
    },
  };
}

async function* addSlices(remaining: RemainingItems, add: (bytes: Uint8Array) => void): AsyncGenerator<void> {
  for await (const slice of remaining.slices()) {
    for (const { bytes } of slice) add(bytes);
    yield;
  }
}

/** The size of an item in a list: `itemSkip` bytes are replaced with a brace. */
const itemBytes = (bytes: Uint8Array, itemSkip: number): number =>
  itemSkip === 0 ? bytes.length : bytes.length - itemSkip + 1;

/** Writes items with their separators into parts of about 256 KiB, whose memory it uses again. */
class ItemWriter {
  readonly #itemSkip: number;
  readonly #size: number;
  readonly #full: Uint8Array[] = [];
  readonly #free: Buffer[] = [];
  #part: Buffer | undefined;
  /** The memory of the last part: it is being sent while the next one is written. */
  #sent: Buffer | undefined;
  #filled = 0;
  #isFirst = true;

  /** `bytes`: about how many will be added, if less than a part. */
  constructor(itemSkip: number, bytes: number) {
    this.#itemSkip = itemSkip;
    this.#size = Math.min(partBytes, bytes);
  }

  /** Copies the bytes of an item. */
  readonly add = (bytes: Uint8Array): void => {
    const skip = this.#itemSkip;
    const part = this.#room(itemBytes(bytes, skip) + 1);
    if (!this.#isFirst) part[this.#filled++] = comma;
    this.#isFirst = false;
    if (skip > 0) part[this.#filled++] = openBrace;
    part.set(skip > 0 ? bytes.subarray(skip) : bytes, this.#filled);
    this.#filled += bytes.length - skip;
  };

  /** The parts that are full. Each one is valid until the second one after it is requested. */
  *takeFull(): Generator<Uint8Array> {
    for (let part = this.#full.shift(); part !== undefined; part = this.#full.shift()) {
      yield part;
      if (this.#sent !== undefined) this.#free.push(this.#sent);
      this.#sent = part.buffer.byteLength === this.#size ? Buffer.from(part.buffer) : undefined;
    }
  }

  /** Everything that was added. */
  *takeRest(): Generator<Uint8Array> {
    yield* this.takeFull();
    if (this.#part !== undefined && this.#filled > 0) yield this.#part.subarray(0, this.#filled);
    this.#filled = 0;
  }

  /** A part with room for `length` bytes. */
  #room(length: number): Buffer {
    if (this.#part !== undefined && this.#filled + length <= this.#part.length) return this.#part;
    if (this.#part !== undefined && this.#filled > 0) this.#full.push(this.#part.subarray(0, this.#filled));
    this.#filled = 0;
    const free = length <= this.#size ? this.#free.pop() : undefined;
    this.#part = free ?? Buffer.allocUnsafeSlow(Math.max(this.#size, length));
    return this.#part;
  }
}
