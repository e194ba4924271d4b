import { closeSync, constants, fdatasyncSync, fstatSync, ftruncateSync, openSync, statfsSync, writeSync } from "node:fs";
import { join } from "node:path";
import { isOutOfSpace } from "../storage-error.ts";

/** Enough for a flush of all recent writes and then for deletes, which free pages. */
const defaultBytes = 4 * 1024 * 1024;
/** Space that must be available beyond the reserve before the reserve is restored, so that the disk is not full immediately. */
const marginBytes = 1024 * 1024;

/** Disk space that is held so that objects can still be deleted when the disk is full. */
export class SpaceReserve {
  readonly #dir: string;
  readonly #file: number;
  readonly #bytes: number;
  #isHeld: boolean;

  /** Takes the reserve, if there is space for it. */
  constructor(dir: string, bytes: number = defaultBytes) {
    this.#dir = dir;
    this.#bytes = bytes;
    this.#file = openSync(join(dir, "reserve"), constants.O_RDWR | constants.O_CREAT, 0o600);
    this.#isHeld = fstatSync(this.#file).size >= bytes || this.#allocate(0);
  }

  /** Whether the space is held. */
  get isHeld(): boolean {
    return this.#isHeld;
  }

  /** Gives the space back to the file system. */
  release(): void {
    ftruncateSync(this.#file, 0);
    this.#isHeld = false;
  }

  /** Takes the space again once the file system has more than that available. Returns whether it is held. */
  restore(): boolean {
    this.#isHeld ||= this.#allocate(marginBytes);
    return this.#isHeld;
  }

  close(): void {
    closeSync(this.#file);
  }

  #allocate(margin: number): boolean {
    try {
      const { bavail, bsize } = statfsSync(this.#dir);
      if (bavail * bsize < this.#bytes + margin) return false;
      // Zeros, not a hole: a hole has no blocks.
      const zeros = Buffer.alloc(256 * 1024);
      for (let done = 0; done < this.#bytes; ) {
        done += writeSync(this.#file, zeros, 0, Math.min(zeros.length, this.#bytes - done), done);
      }
      fdatasyncSync(this.#file);
      return true;
    } catch (error) {
      if (!isOutOfSpace(error)) throw error;
      this.release();
      return false;
    }
  }
}
