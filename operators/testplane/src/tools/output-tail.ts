/** Maximum size of each output in the status of a step. */
const maxOutputBytes = 16_384;

/** Collects the last bytes of an output. */
export class OutputTail {
  #chunks: Buffer[] = [];
  #size = 0;
  #totalBytes = 0;

  /** The standard output of a result. */
  result(): { readonly stdout: string; readonly truncated?: true } {
    return { stdout: this.text(), ...truncation(this.#totalBytes) };
  }

  add(chunk: Uint8Array): void {
    this.#totalBytes += chunk.length;
    this.#chunks.push(Buffer.from(chunk));
    this.#size += chunk.length;
    for (
      let first = this.#chunks[0];
      first !== undefined && this.#size - first.length >= maxOutputBytes;
      first = this.#chunks[0]
    ) {
      this.#size -= first.length;
      this.#chunks.shift();
    }
  }

  /** The last 16 KiB, as text. */
  text(): string {
    return tailOf(Buffer.concat(this.#chunks));
  }
}

/** The field of a result that marks an output of this size as truncated. */
export const truncation = (bytes: number): { readonly truncated?: true } => (bytes > maxOutputBytes ? { truncated: true } : {});

/** The last 16 KiB of a text. A character that is cut is dropped. */
export function tailOf(bytes: Buffer): string {
  if (bytes.length <= maxOutputBytes) return bytes.toString("utf8");
  return bytes
    .subarray(-maxOutputBytes)
    .toString("utf8")
    .replace(/^\ufffd+/, "");
}
