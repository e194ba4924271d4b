import { Duplex } from "node:stream";
import type { ExecConnection } from "../fleet/exec-connection.ts";
import { execChannels } from "../protocol/exec-frames.ts";

/** A connection to a port of a sandbox as a stream. An end without the last frame is an error: the connection broke. */
export class PortStream extends Duplex {
  readonly #connection: ExecConnection;
  #resume: (() => void) | undefined;
  #isReading = false;

  constructor(connection: ExecConnection) {
    super({ allowHalfOpen: true });
    this.#connection = connection;
  }

  override _read(): void {
    this.#resume?.();
    if (this.#isReading) return;
    this.#isReading = true;
    this.#pump().catch((error: unknown) => this.destroy(error instanceof Error ? error : new Error(String(error))));
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error) => void): void {
    this.#connection.send(execChannels.stdin, chunk).then(() => done(), done);
  }

  override _final(done: (error?: Error) => void): void {
    this.#connection.send(execChannels.closeStdin, Buffer.alloc(0)).then(() => done(), done);
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#connection.close();
    this.#resume?.();
    done(error);
  }

  async #pump(): Promise<void> {
    for await (const { channel, data } of this.#connection.frames) {
      if (this.destroyed) return;
      if (channel === execChannels.exit) {
        this.push(null);
        return;
      }
      if (channel === execChannels.stdout && data.length > 0 && !this.push(data)) await this.#whenRead();
    }
    if (!this.destroyed) throw new Error("the connection to the port was lost");
  }

  #whenRead(): Promise<void> {
    return new Promise((resolve) => {
      this.#resume = () => {
        this.#resume = undefined;
        resolve();
      };
    });
  }
}
