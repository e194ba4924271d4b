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
  const pending: { readonly fault: RequestFault; left: number }[] = [];
  const watches = new Set<{ readonly sink: WatchSink; close(): void }>();
  let latencyMs = 0;
  let injected = 0;

  const faultFor = (request: PipelineRequest): RequestFault | undefined => {
    const index = pending.findIndex(({ fault }) => fault.when?.(request) ?? true);
    const found = pending[index];
    if (found === undefined) return undefined;
    found.left -= 1;
    if (found.left <= 0) pending.splice(index, 1);
    injected += 1;
    return found.fault;
  };

  /** Wraps a watch, so that it can be ended from here. */
  const followWatch = (outcome: Outcome): Outcome => {
    if (outcome.kind !== "watch") return outcome;
    return {
      ...outcome,
      open(sink) {
        const watch = { sink, close: () => undefined as void };
        watches.add(watch);
        const source = outcome.open({
          events: (batch, isInitial) => sink.events(batch, isInitial),
          end() {
            watches.delete(watch);
            sink.end();
          },
        });
        watch.close = () => {
          watches.delete(watch);
          source.close();
        };
        return watch;
      },
    };
  };

  const endAll = (before: (sink: WatchSink) => void): void => {
    for (const watch of watches) {
      watch.close();
      before(watch.sink);
      watch.sink.end();
    }
  };

  return {
    async handle(request) {
      if (latencyMs > 0) await sleep(clock, latencyMs, request.signal);
      const fault = faultFor(request);
      if (fault === undefined) return followWatch(await handle(request));
      const { reason, retryAfterSeconds, message = `injected by the test: ${reason}` } = fault;
      const details = retryAfterSeconds === undefined ? undefined : { retryAfterSeconds };
      return { kind: "status", status: statusError(reason, message, details).status };
    },
    faults: {
      failNext(fault) {
        const entry = { fault, left: fault.times ?? 1 };
        pending.push(entry);
        return () => {
          const index = pending.indexOf(entry);
          if (index >= 0) pending.splice(index, 1);
        };
      },
      dropWatches: () => endAll(() => undefined),
      expireWatches: () =>
        endAll((sink) => {
          const { status } = statusError("Expired", "too old resource version: injected by the test");
          sink.events([{ type: "ERROR", status }]);
        }),
      setLatency(ms) {
        latencyMs = ms;
      },
      get injected() {
        return injected;
      },
    },
  };
}
