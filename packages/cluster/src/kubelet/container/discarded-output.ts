import type { Readable } from "node:stream";
import type { Clock } from "@keelson/api-machinery/time";

/** The bytes that are discarded per pause, and its length: 25 MiB per second. */
const burstBytes = 256 * 1024;
const pauseMs = 10;

/**
 * Slows down a command whose output is discarded: it waits in its own time, instead of keeping the node busy with reading. Output within
 * the first burst is not slowed down.
 */
export class DiscardedOutput {
  readonly #stream: Pick<Readable, "pause" | "resume">;
  readonly #clock: Clock;
  #bytes = 0;

  constructor(stream: Pick<Readable, "pause" | "resume">, clock: Clock) {
    this.#stream = stream;
    this.#clock = clock;
  }

  /** Counts bytes that were read and discarded. */
  add(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes < burstBytes) return;
    this.#bytes = 0;
    this.#stream.pause();
    this.#clock.setTimer(pauseMs, () => void this.#stream.resume(), { background: true });
  }
}
