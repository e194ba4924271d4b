import { isJsonObject } from "@keelson/api-machinery";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import type { WatchEvent, WatchStream } from "@keelson/api-machinery/transport";
import type { Readable } from "node:stream";
import { bodyChunks } from "./body-chunks.ts";
import { LineSplitter } from "./line-splitter.ts";
import { TransportError } from "../transport/transport-error.ts";
import { transportErrorOf } from "../transport/undici-error.ts";

/** Options of {@link HttpWatch}. */
export interface HttpWatchOptions {
  readonly clock: Clock;
  /** Time without data after which the connection is considered lost. */
  readonly silenceMs: number;
  readonly maxLineBytes: number;
  /** See `ApiRequest.decode`. */
  readonly decode: ((line: Buffer) => unknown) | undefined;
  readonly signal: AbortSignal | undefined;
  readonly onEnd: () => void;
}

/** A watch over one connection. It is created before the request is sent. */
export class HttpWatch implements WatchStream {
  readonly #clock: Clock;
  readonly #silenceMs: number;
  readonly #lines: LineSplitter;
  readonly #decode: (line: Buffer) => unknown;
  readonly #outer: AbortSignal | undefined;
  readonly #onEnd: () => void;
  readonly #controller = new AbortController();
  readonly #onAbort = (): void => this.close();
  #body: Readable | undefined;
  #silenceTimer: Timer;
  #receivedAt: number;
  #ended = false;

  constructor(options: HttpWatchOptions) {
    this.#clock = options.clock;
    this.#silenceMs = options.silenceMs;
    this.#lines = new LineSplitter(options.maxLineBytes);
    this.#decode = options.decode ?? parseJson;
    this.#outer = options.signal;
    this.#onEnd = options.onEnd;
    this.#outer?.addEventListener("abort", this.#onAbort, { once: true });
    this.#receivedAt = this.#clock.monotonic();
    this.#silenceTimer = this.#arm(this.#silenceMs);
  }

  /** Signal for the request: aborted when the watch is closed or silent for too long. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Why the watch failed, if it was not closed. */
  get failure(): TransportError | undefined {
    const reason: unknown = this.#controller.signal.reason;
    return reason instanceof TransportError ? reason : undefined;
  }

  /** Sets the body to read. */
  open(body: Readable): void {
    this.#body = body;
    // Errors reach the reader. An error after the reader has finished must not crash the process.
    body.on("error", () => {});
    if (this.#ended) body.destroy();
  }

  close(): void {
    if (this.#ended) return;
    this.#finish();
    this.#controller.abort();
    this.#body?.destroy();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<WatchEvent<unknown>, void, undefined> {
    for await (const events of this.batches()) {
      for (const event of events) {
        yield event;
        if (this.#ended) return;
      }
    }
  }

  async *batches(): AsyncGenerator<readonly WatchEvent<unknown>[], void, undefined> {
    try {
      if (this.#body === undefined || this.#ended) return;
      for await (const chunk of bodyChunks(this.#body)) {
        this.#receivedAt = this.#clock.monotonic();
        const { events, error } = this.#read(chunk);
        if (events.length > 0) yield events;
        if (this.#ended) return;
        if (error !== undefined) throw error;
      }
      if (this.#lines.pendingBytes > 0 && !this.#ended) {
        throw new TransportError("InvalidResponse", `the watch ended within a line, after ${this.#lines.pendingBytes} bytes`);
      }
    } catch (error) {
      if (this.failure !== undefined) throw this.failure;
      if (!this.#ended) throw transportErrorOf(error, "watch");
    } finally {
      this.close();
    }
  }

  /** The events that end in `chunk`, up to the first invalid one. */
  #read(chunk: Buffer): { readonly events: readonly WatchEvent<unknown>[]; readonly error?: unknown } {
    const events: WatchEvent<unknown>[] = [];
    try {
      for (const line of this.#lines.push(chunk)) events.push(readEvent(line, this.#decode));
      return { events };
    } catch (error) {
      return { events, error };
    }
  }

  #finish(): void {
    this.#ended = true;
    this.#silenceTimer.cancel();
    this.#outer?.removeEventListener("abort", this.#onAbort);
    this.#onEnd();
  }

  #arm(delayMs: number): Timer {
    return this.#clock.setTimer(delayMs, () => this.#checkSilence(), { background: true });
  }

  /** The timer is re-armed only when it fires: re-arming it with every chunk would cost more than reading the chunk. */
  #checkSilence(): void {
    if (this.#ended) return;
    const silent = this.#clock.monotonic() - this.#receivedAt;
    if (silent < this.#silenceMs) {
      this.#silenceTimer = this.#arm(this.#silenceMs - silent);
      return;
    }
    const error = new TransportError(
      "Timeout",
      `the watch was silent for ${Math.round(silent / 1000)} s; the connection is considered lost`,
    );
    this.#finish();
    this.#controller.abort(error);
    this.#body?.destroy(error);
  }
}

const types = new Set(["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]);

const parseJson = (line: Buffer): unknown => JSON.parse(line.toString("utf8"));

function readEvent(line: Buffer, decode: (line: Buffer) => unknown): WatchEvent<unknown> {
  let event: unknown;
  try {
    event = decode(line);
  } catch (error) {
    throw new TransportError("InvalidResponse", `watch event is not JSON: ${line.toString("utf8", 0, 100)}`, {
      cause: error,
    });
  }
  if (
    !isJsonObject(event) ||
    typeof event["type"] !== "string" ||
    !types.has(event["type"]) ||
    !isJsonObject(event["object"])
  ) {
    throw new TransportError("InvalidResponse", `invalid watch event: ${line.toString("utf8", 0, 100)}`);
  }
  return event as unknown as WatchEvent<unknown>;
}
