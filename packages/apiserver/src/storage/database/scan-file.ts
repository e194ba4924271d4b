import { fstatSync, readSync } from "node:fs";

/** A database file that is read without mapping it. */
export class ScanFile {
  readonly #file: number;
  /** Size of the file. */
  readonly bytes: number;

  constructor(file: number) {
    this.#file = file;
    this.bytes = fstatSync(file).size;
  }

  /** Reads `length` bytes; those past the end of the file are zero. */
  read(offset: number, length: number): Buffer {
    const buffer = Buffer.alloc(length);
    for (let done = 0; done < length; ) {
      const read = readSync(this.#file, buffer, done, length - done, offset + done);
      if (read === 0) break;
      done += read;
    }
    return buffer;
  }
}
