import { execCreditBytes, execWindowBytes } from "./exec-messages.ts";

/** What the sender of a stream may still send. */
export class ExecWindow {
  #left = execWindowBytes;
  #wake: (() => void) | undefined;
  #isClosed = false;

  /** Waits until `bytes` may be sent, and counts them. Resolves to false if the window was closed. */
  async take(bytes: number): Promise<boolean> {
    while (this.#left < bytes && !this.#isClosed) await new Promise<void>((resolve) => (this.#wake = resolve));
    this.#left -= bytes;
    return !this.#isClosed;
  }

  /** The receiver has processed `bytes`. */
  credit(bytes: number): void {
    this.#left = Math.min(this.#left + bytes, execWindowBytes);
    this.#wake?.();
  }

  /** Ends every wait. */
  close(): void {
    this.#isClosed = true;
    this.#wake?.();
  }
}

/** Counts what the receiver of a stream has processed and not yet credited. */
export class ExecCredits {
  #bytes = 0;

  /** Counts `bytes`. Returns what to credit now, or undefined. */
  processed(bytes: number): number | undefined {
    this.#bytes += bytes;
    if (this.#bytes < execCreditBytes) return undefined;
    const credited = this.#bytes;
    this.#bytes = 0;
    return credited;
  }
}
