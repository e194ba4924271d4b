import { once } from "node:events";
import { parseLabelledLine } from "../../launch/mpiexec/rank-lines.ts";

const newline = 0x0a;

/** Changes a log line by line. */
export interface LineTransform {
  /** Adds bytes and returns the lines that are complete. */
  push(chunk: Uint8Array): Uint8Array;
  /** Returns an unfinished last line. */
  end(): Uint8Array;
}

/** Splits a stream into whole lines and prefixes each with a name, so that lines of concurrent programs do not mix. */
export function namedLines(name: string): LineTransform {
  const prefix = Buffer.from(`${name}: `);
  return wholeLines((line) => [prefix, line]);
}

/** Which lines of labelled output to keep. */
export interface RankSelection {
  /** Default: all ranks, and mpiexec. */
  readonly rank?: number;
  readonly keepsLabels: boolean;
}

/** Selects lines of output that the launcher has labelled with ranks. */
export function rankLines({ rank, keepsLabels }: RankSelection): LineTransform {
  return wholeLines((line) => {
    const { rank: own, text } = parseLabelledLine(line.toString("latin1"));
    if (rank !== undefined && own !== rank) return [];
    return [keepsLabels || own === undefined ? line : Buffer.from(text, "latin1")];
  });
}

function wholeLines(change: (line: Buffer) => readonly Uint8Array[]): LineTransform {
  let rest: Uint8Array = Buffer.alloc(0);
  return {
    push(chunk) {
      const bytes = Buffer.concat([rest, chunk]);
      const lines: Uint8Array[] = [];
      let start = 0;
      for (let end = bytes.indexOf(newline); end >= 0; end = bytes.indexOf(newline, start)) {
        lines.push(...change(bytes.subarray(start, end + 1)));
        start = end + 1;
      }
      rest = bytes.subarray(start);
      return Buffer.concat(lines);
    },
    end() {
      const last = rest.length > 0 ? Buffer.concat(change(Buffer.concat([rest, Buffer.from("\n")]))) : rest;
      rest = Buffer.alloc(0);
      return last;
    },
  };
}

/** Writes bytes and waits for the stream to drain. Rejects if the signal fires first. */
export async function writeInStep(out: NodeJS.WritableStream, bytes: Uint8Array, signal: AbortSignal): Promise<void> {
  if (bytes.length > 0 && !out.write(bytes)) await once(out, "drain", { signal });
}
