import type { LogPosition } from "@keelson/execution";
import { execWindowBytes } from "../protocol/exec-messages.ts";

/** A part of a command's output. */
export interface OutputPart {
  readonly stream: "stdout" | "stderr";
  readonly data: Buffer;
  /** Of the output of a program: the position after the data. */
  readonly position?: LogPosition | undefined;
}

/** Parts below this size take up further data, so that a robot cannot fill the memory with objects for single bytes. */
const mergeBytes = 4096;

/** Output of a command that waits for its reader, in the order of each stream. Holds at most `execWindowBytes`. */
export class ExecOutput {
  readonly #parts: OutputPart[] = [];
  #uncredited = 0;

  /** Adds data that the sender sent. Returns false, and drops it, if the sender had no credit for it. */
  add({ stream, data, position }: OutputPart): boolean {
    if (this.#uncredited + data.length > execWindowBytes) return false;
    this.#uncredited += data.length;
    const index = this.#parts.findLastIndex((part) => part.stream === stream);
    const last = this.#parts[index];
    if (last !== undefined && last.data.length < mergeBytes)
      this.#parts[index] = { stream, data: Buffer.concat([last.data, data]), position };
    else if (data.length > 0) this.#parts.push({ stream, data, position });
    return true;
  }

  /** Removes and returns the oldest part. Undefined if there is none. */
  take(): OutputPart | undefined {
    return this.#parts.shift();
  }

  /** The sender may send `bytes` more. */
  credited(bytes: number): void {
    this.#uncredited -= bytes;
  }

  /** Drops everything. */
  clear(): void {
    this.#parts.length = 0;
  }
}
