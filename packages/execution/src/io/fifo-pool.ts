import { execFile } from "node:child_process";
import { closeSync, constants, mkdirSync, openSync, readdirSync, renameSync } from "node:fs";
import { join } from "node:path";
import { Socket } from "node:net";
import { promisify } from "node:util";

const batch = 32;

/** A pool of FIFOs: Node cannot create them, and one call of mkfifo(1) creates many. */
export class FifoPool {
  readonly #folder: string;
  readonly #random: () => number;
  #spare: string[] | undefined;
  #refill: Promise<void> | undefined;

  /** `folder` is created on first use. FIFOs left there by an earlier pool are reused. */
  constructor(folder: string, random: () => number) {
    this.#folder = folder;
    this.#random = random;
  }

  /** Moves a FIFO to `path`; false if the machine or file system does not support FIFOs. */
  async take(path: string): Promise<boolean> {
    if (this.#spare === undefined) {
      mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
      this.#spare = readdirSync(this.#folder).map((name) => join(this.#folder, name));
    }
    for (let attempt = 0; attempt < 2; attempt++) {
      const name = this.#spare.pop();
      if (name !== undefined) {
        renameSync(name, path);
        return true;
      }
      this.#refill ??= this.#createBatch().finally(() => {
        this.#refill = undefined;
      });
      await this.#refill;
    }
    return false;
  }

  async #createBatch(): Promise<void> {
    const base = Math.floor(this.#random() * 2 ** 48).toString(36);
    const names = Array.from({ length: batch }, (_, index) => join(this.#folder, `${base}-${index}`));
    try {
      await promisify(execFile)("mkfifo", ["-m", "600", ...names], { env: { PATH: "/usr/bin:/bin" } });
      this.#spare?.push(...names);
    } catch {
      // No mkfifo(1), or a file system without FIFOs: `take` returns false.
    }
  }
}

/** Opens the end that a shim holds. Does not block, because it opens for reading as well. */
export function openAliveEnd(path: string): number {
  return openSync(path, constants.O_RDWR);
}

/** Opens a FIFO for reading without waiting for a writer. Ends when the last writer closes. */
export function readFifo(path: string): Socket {
  return new Socket({ fd: openSync(path, constants.O_RDONLY | constants.O_NONBLOCK), readable: true, writable: false });
}

/** Opens a FIFO for writing without waiting for a reader. */
export function writeFifo(path: string): Socket {
  return new Socket({ fd: openSync(path, constants.O_RDWR | constants.O_NONBLOCK), readable: false, writable: true });
}

/** A watch on a FIFO's holders. */
export interface AliveWatch {
  cancel(): void;
}

/**
 * Calls `onEnd` when the last holder of the FIFO closes it. A holder that closed before this call goes unnoticed, so check afterwards
 * whether it is alive. Undefined if the FIFO does not exist.
 */
export function watchAlive(path: string, onEnd: () => void): AliveWatch | undefined {
  let fd: number;
  try {
    fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch {
    return undefined;
  }
  let socket: Socket;
  try {
    socket = new Socket({ fd, readable: true, writable: false });
  } catch {
    closeSync(fd);
    return undefined;
  }
  let cancelled = false;
  socket.on("error", () => {});
  socket.once("close", () => {
    if (!cancelled) onEnd();
  });
  socket.resume();
  return {
    cancel() {
      cancelled = true;
      socket.destroy();
    },
  };
}
