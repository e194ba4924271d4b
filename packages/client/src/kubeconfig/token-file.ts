import type { Clock } from "@keelson/api-machinery/time";
import { readFile } from "node:fs/promises";
import type { Credentials, CredentialSource } from "../transport/credentials.ts";
import { TransportError } from "../transport/transport-error.ts";

const freshMs = 60_000;

/**
 * A bearer token in a file that is rotated, such as that of a service account. It is read again after a minute and
 * when the server rejects it. If the file cannot be read, the last token is kept.
 */
export class TokenFile implements CredentialSource {
  readonly #file: string;
  readonly #clock: Clock;
  readonly #others: Credentials;
  #token: string | undefined;
  #readAt = Number.NEGATIVE_INFINITY;

  constructor(file: string, clock: Clock, others: Credentials = {}) {
    this.#file = file;
    this.#clock = clock;
    this.#others = others;
  }

  async get(): Promise<Credentials> {
    const now = this.#clock.monotonic();
    if (now - this.#readAt >= freshMs) {
      try {
        const token = (await readFile(this.#file, "utf8")).trim();
        if (token === "") throw new TypeError("the file is empty");
        this.#token = token;
        this.#readAt = now;
      } catch (error) {
        if (this.#token === undefined) {
          throw new TransportError("Credentials", `token file ${this.#file}: ${(error as Error).message}`, { cause: error });
        }
      }
    }
    return this.#token === undefined ? this.#others : { ...this.#others, token: this.#token };
  }

  invalidate(): void {
    this.#readAt = Number.NEGATIVE_INFINITY;
  }
}
