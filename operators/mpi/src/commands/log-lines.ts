import { once } from "node:events";

const newline = 0x0a;

/**
 * Splits a stream into whole lines and prefixes each with a name, so that lines of concurrent programs do not mix. `end` returns an
 * unfinished last line.
 */
export function namedLines(name: string): { push(chunk: Uint8Array): Uint8Array; end(): Uint8Array } {
  const prefix = Buffer.from(`${name}: `);
  let rest: Uint8Array = Buffer.alloc(0);
  return {
    push(chunk) {
      const bytes = Buffer.concat([rest, chunk]);
      const lines: Uint8Array[] = [];
      let start = 0;
      for (let end = bytes.indexOf(newline); end >= 0; end = bytes.indexOf(newline, start)) {
        lines.push(prefix, bytes.subarray(start, end + 1));
        start = end + 1;
      }
      rest = bytes.subarray(start);
      return Buffer.concat(lines);
    },
    end() {
      const last = rest.length > 0 ? Buffer.concat([prefix, rest, Buffer.from("\n")]) : rest;
      rest = Buffer.alloc(0);
      return last;
    },
  };
}

/** Writes bytes and waits for the stream to drain. Rejects if the signal fires first. */
export async function writeInStep(out: NodeJS.WritableStream, bytes: Uint8Array, signal: AbortSignal): Promise<void> {
  if (bytes.length > 0 && !out.write(bytes)) await once(out, "drain", { signal });
}
