import { execFile } from "node:child_process";
import { closeSync, constants, mkdirSync, openSync, readdirSync, renameSync } from "node:fs";
import { join } from "node:path";
import { Socket } from "node:net";
import { promisify } from "node:util";

const batch = 32;

/** FIFOs in stock: Node cannot make them, and one call of mkfifo(1) makes many. */
export class FifoPool {
  readonly #folder: string;
  readonly #random: () => number;
  #spare: string[] | undefined;
  #making: Promise<void> | undefined;

  /** `folder` is made when it is needed. FIFOs that an earlier pool left there are used. */
  constructor(folder: string, random: () => number) {
    this.#folder = folder;
    this.#random = random;
  }

  /** Puts a FIFO at `path`; false where this machine or file system has none. */
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
      this.#making ??= this.#make().finally(() => {
        this.#making = undefined;
      });
      await this.#making;
    }
    return false;
  }

  async #make(): Promise<void> {
    const base = Math.floor(this.#random() * 2 ** 48).toString(36);
    const names = Array.from({ length: batch }, (_, index) => join(this.#folder, `${base}-${index}`));
    try {
      await promisify(execFile)("mkfifo", ["-m", "600", ...names], { env: { PATH: "/usr/bin:/bin" } });
      this.#spare?.push(...names);
    } catch {
      // No mkfifo, or a file system without FIFOs: `take` says so.
    }
  }
}

/** Opens the end that a shim holds. Never waits, since it opens for reading as well. */
export function openAliveEnd(path: string): number {
  return openSync(path, constants.O_RDWR);
}

/** A FIFO's end that this process reads, whether or not anybody writes yet. Ends when the last writer is gone. */
export function readFifo(path: string): Socket {
  return new Socket({ fd: openSync(path, constants.O_RDONLY | constants.O_NONBLOCK), readable: true, writable: false });
}

/** A FIFO's end that this process writes, whether or not anybody reads yet. */
export function writeFifo(path: string): Socket {
  return new Socket({ fd: openSync(path, constants.O_RDWR | constants.O_NONBLOCK), readable: false, writable: true });
}

/** Something that is being watched. */
export interface AliveWatch {
  cancel(): void;
}

/**
 * Calls `onEnd` when the last holder of the FIFO is gone. One that was gone before this call is not noticed: look whether
 * it is alive afterwards. Undefined where there is no FIFO.
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
