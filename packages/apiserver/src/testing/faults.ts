import { statusError, type StatusReason } from "@keelson/api-machinery";
import { type Clock, sleep } from "@keelson/api-machinery/time";
import type { Handle, Outcome, PipelineRequest, WatchSink } from "../endpoints/outcome.ts";

/** A fault to inject. */
export interface RequestFault {
  /** Which requests it affects. Default: all. */
  readonly when?: (request: PipelineRequest) => boolean;
  /** How many requests it affects. Default 1. */
  readonly times?: number;
  /** The reason of the error response. The request is not executed. */
  readonly reason: StatusReason;
  readonly message?: string;
  /** Sent with `TooManyRequests`, `ServiceUnavailable` and timeouts. */
  readonly retryAfterSeconds?: number;
}

/** Faults that a test injects into the server's responses. */
export interface Faults {
  /** Fails the next matching requests. Returns a function that cancels it. */
  failNext(fault: RequestFault): () => void;
  /** Ends every open watch as a broken connection would; clients resume. */
  dropWatches(): void;
  /** Sends every open watch an ERROR 410 and ends it; clients relist. */
  expireWatches(): void;
  /** Delays every request by this much on the test's clock. 0 disables the delay. */
  setLatency(ms: number): void;
  /** How many requests have failed by injection so far. */
  readonly injected: number;
}

/** Wraps a pipeline with fault injection. */
export function withFaults(handle: Handle, clock: Clock): { readonly handle: Handle; readonly faults: Faults } {
  const faults = new InjectedFaults(handle, clock);
  return { handle: (request) => faults.handle(request), faults };
}

interface FollowedWatch {
  readonly sink: WatchSink;
  close(): void;
}

class InjectedFaults implements Faults {
  readonly #handle: Handle;
  readonly #clock: Clock;
  readonly #pending: { readonly fault: RequestFault; left: number }[] = [];
  readonly #watches = new Set<FollowedWatch>();
  #latencyMs = 0;
  #injected = 0;

  constructor(handle: Handle, clock: Clock) {
    this.#handle = handle;
    this.#clock = clock;
  }

  get injected(): number {
    return this.#injected;
  }

  async handle(request: PipelineRequest): Promise<Outcome> {
    if (this.#latencyMs > 0) await sleep(this.#clock, this.#latencyMs, request.signal);
    const fault = this.#faultFor(request);
    if (fault === undefined) return this.#followWatch(await this.#handle(request));
    const { reason, retryAfterSeconds, message = `injected by the test: ${reason}` } = fault;
    const details = retryAfterSeconds === undefined ? undefined : { retryAfterSeconds };
    return { kind: "status", status: statusError(reason, message, details).status };
  }

  failNext(fault: RequestFault): () => void {
    const entry = { fault, left: fault.times ?? 1 };
    this.#pending.push(entry);
    return () => {
      const index = this.#pending.indexOf(entry);
      if (index >= 0) this.#pending.splice(index, 1);
    };
  }

  dropWatches(): void {
    this.#endAll(() => undefined);
  }

  expireWatches(): void {
    const { status } = statusError("Expired", "too old resource version: injected by the test");
    this.#endAll((sink) => sink.events([{ type: "ERROR", status }]));
  }

  setLatency(ms: number): void {
    this.#latencyMs = ms;
  }

  #faultFor(request: PipelineRequest): RequestFault | undefined {
    const index = this.#pending.findIndex(({ fault }) => fault.when?.(request) ?? true);
    const found = this.#pending[index];
    if (found === undefined) return undefined;
    found.left -= 1;
    if (found.left <= 0) this.#pending.splice(index, 1);
    this.#injected += 1;
    return found.fault;
  }

  /** Wraps a watch, so that it can be ended from here. */
  #followWatch(outcome: Outcome): Outcome {
    if (outcome.kind !== "watch") return outcome;
    return {
      ...outcome,
      open: (sink) => {
        const watch = { sink, close: () => undefined as void };
        this.#watches.add(watch);
        const source = outcome.open({
          events: (batch, isInitial) => sink.events(batch, isInitial),
          end: () => {
            this.#watches.delete(watch);
            sink.end();
          },
        });
        watch.close = () => {
          this.#watches.delete(watch);
          source.close();
        };
        return watch;
      },
    };
  }

  #endAll(before: (sink: WatchSink) => void): void {
    for (const watch of this.#watches) {
      watch.close();
      before(watch.sink);
      watch.sink.end();
    }
  }
}
