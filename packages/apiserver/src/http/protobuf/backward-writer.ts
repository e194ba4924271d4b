/** A buffer that grew beyond this size is not kept. */
const keptBytes = 4 * 1024 * 1024;
const firstBytes = 64 * 1024;

/** Strings up to this length are written character by character, which is faster than a call of the encoder. */
const shortText = 48;

/**
 * Writes protobuf from the end of a buffer to its beginning, as Kubernetes' generated code does: the length of a nested message is known when its
 * prefix is written, so nothing is measured first or moved later.
 *
 * ```text
 *   free ............ | written
 *   0                 at      buffer.length
 * ```
 */
export class BackwardWriter {
  #buffer = Buffer.allocUnsafeSlow(firstBytes);
  #at = this.#buffer.length;

  /** The number of bytes written. */
  get length(): number {
    return this.#buffer.length - this.#at;
  }

  /** Returns a copy of everything written, and starts again. */
  take(): Buffer {
    const bytes = Buffer.from(this.#buffer.subarray(this.#at));
    this.reset();
    return bytes;
  }

  /** Drops everything written. */
  reset(): void {
    if (this.#buffer.length > keptBytes) this.#buffer = Buffer.allocUnsafeSlow(firstBytes);
    this.#at = this.#buffer.length;
  }

  /** Writes a tag of field `number` with a wire type: 0 varint, 1 eight bytes, 2 length and bytes. */
  tag(number: number, wireType: 0 | 1 | 2): void {
    this.unsigned(number * 8 + wireType);
  }

  /** Writes a varint that is not negative. */
  unsigned(value: number): void {
    if (value < 0x80) {
      this.#reserve(1);
      this.#buffer[--this.#at] = value;
      return;
    }
    let size = 1;
    for (let rest = Math.floor(value / 0x80); rest > 0; rest = Math.floor(rest / 0x80)) size++;
    this.#reserve(size);
    this.#at -= size;
    let rest = value;
    for (let at = this.#at; ; at++) {
      const low = rest % 0x80;
      rest = Math.floor(rest / 0x80);
      this.#buffer[at] = rest > 0 ? low | 0x80 : low;
      if (rest === 0) return;
    }
  }

  /** Writes a varint: a negative value takes ten bytes. */
  signed(value: number): void {
    if (value >= 0) {
      this.unsigned(Math.trunc(value));
      return;
    }
    let rest = BigInt.asUintN(64, BigInt(Math.trunc(value)));
    this.#reserve(10);
    this.#at -= 10;
    for (let at = this.#at; at < this.#at + 10; at++) {
      const low = Number(rest & 0x7fn);
      rest >>= 7n;
      this.#buffer[at] = rest > 0n ? low | 0x80 : low;
    }
  }

  /** Writes a double. */
  double(value: number): void {
    this.#reserve(8);
    this.#at -= 8;
    this.#buffer.writeDoubleLE(value, this.#at);
  }

  /** Writes bytes without a length. */
  raw(bytes: Uint8Array): void {
    this.#reserve(bytes.length);
    this.#at -= bytes.length;
    this.#buffer.set(bytes, this.#at);
  }

  /** Writes the length of everything since `start`, a former {@link length}, and the tag of a field before it. */
  close(number: number, start: number): void {
    this.unsigned(this.length - start);
    this.tag(number, 2);
  }

  /** Writes a string in UTF-8 as a field. */
  text(number: number, text: string): void {
    const size = this.#characters(text);
    this.unsigned(size);
    this.tag(number, 2);
  }

  #characters(text: string): number {
    const { length } = text;
    if (length <= shortText) {
      this.#reserve(length);
      const start = this.#at - length;
      let index = 0;
      for (; index < length; index++) {
        const code = text.charCodeAt(index);
        if (code >= 0x80) break;
        this.#buffer[start + index] = code;
      }
      if (index === length) {
        this.#at = start;
        return length;
      }
    }
    const size = Buffer.byteLength(text, "utf8");
    this.#reserve(size);
    this.#at -= size;
    this.#buffer.write(text, this.#at, size, "utf8");
    return size;
  }

  #reserve(size: number): void {
    if (size <= this.#at) return;
    const used = this.length;
    const larger = Buffer.allocUnsafeSlow(Math.max(this.#buffer.length * 2, used + size));
    this.#buffer.copy(larger, larger.length - used, this.#at);
    this.#at = larger.length - used;
    this.#buffer = larger;
  }
}
