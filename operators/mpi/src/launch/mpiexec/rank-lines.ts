import type { MpiImplementation } from "../pod-environment.ts";

/** A line of output. */
export interface RankLine {
  /** Undefined for lines of mpiexec itself. */
  readonly rank: number | undefined;
  /** Without its line break; one character per byte. */
  readonly text: string;
}

/** The mark that MPICH's mpiexec puts before each piece of output. `%r` is the rank. The control characters do not occur in text. */
const mpichMark = "\u001ekmpi:%r\u001f";

/** Options that make mpiexec mark every piece of output with its rank. */
export const markOptions: Readonly<Record<MpiImplementation, readonly string[]>> = {
  OpenMPI: ["--tag-output"],
  MPICH: ["-prepend-pattern", mpichMark],
};

const mark = /\[\d+,(\d+)\]<std(?:out|err|diag)>:|\u001ekmpi:(\d+)\u001f/g;
/** A part of a mark at the end of a chunk. */
const partialMark = /(?:\[\d{0,7}(?:,\d{0,7}(?:\](?:<[a-z]{0,7}>?)?)?)?|\u001e(?:k(?:m(?:p(?:i(?::\d{0,7})?)?)?)?)?)$/;

/** Longer lines are split. */
const maxLineLength = 64 * 1024;

/**
 * Restores whole lines from marked output. mpiexec marks pieces as it receives them, so pieces of lines of several ranks mix.
 *
 * A rank's mark ends with the line: a line without a mark is mpiexec's own.
 */
export class RankLines {
  readonly #unfinished = new Map<number | undefined, string>();
  #current: number | undefined;
  #rest = "";

  /** Adds output and returns the lines that are complete. */
  push(chunk: string): readonly RankLine[] {
    const text = this.#rest + chunk;
    this.#rest = partialMark.exec(text)?.[0] ?? "";
    return this.#add(text.slice(0, text.length - this.#rest.length));
  }

  /** Returns the unfinished lines at the end of the output. */
  end(): readonly RankLine[] {
    const lines = [...this.#add(this.#rest)];
    this.#rest = "";
    for (const [rank, text] of this.#unfinished) if (text !== "") lines.push({ rank, text });
    this.#unfinished.clear();
    return lines;
  }

  #add(text: string): readonly RankLine[] {
    const lines: RankLine[] = [];
    let start = 0;
    for (const match of text.matchAll(mark)) {
      this.#append(text.slice(start, match.index), lines);
      this.#current = Number(match[1] ?? match[2]);
      start = match.index + match[0].length;
    }
    this.#append(text.slice(start), lines);
    return lines;
  }

  #append(text: string, lines: RankLine[]): void {
    let start = 0;
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", start)) {
      lines.push({ rank: this.#current, text: (this.#unfinished.get(this.#current) ?? "") + text.slice(start, end) });
      this.#unfinished.delete(this.#current);
      this.#current = undefined;
      start = end + 1;
    }
    const unfinished = (this.#unfinished.get(this.#current) ?? "") + text.slice(start);
    if (unfinished === "") return;
    if (unfinished.length < maxLineLength) {
      this.#unfinished.set(this.#current, unfinished);
      return;
    }
    lines.push({ rank: this.#current, text: unfinished });
    this.#unfinished.delete(this.#current);
  }
}

/** A line with its label, as `keelson mpi logs` reads it. */
export function labelledLine({ rank, text }: RankLine): string {
  return rank === undefined ? `${text}\n` : `[${rank}] ${text}\n`;
}

/** Splits a labelled line into the rank and its text. */
export function parseLabelledLine(line: string): RankLine {
  const [, rank, text] = /^\[(\d{1,7})\] ([\s\S]*)$/.exec(line) ?? [];
  return rank === undefined || text === undefined ? { rank: undefined, text: line } : { rank: Number(rank), text };
}
