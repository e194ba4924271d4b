import { statusError, type StatusReason } from "@keelson/api-machinery";
import { type Clock, sleep } from "@keelson/api-machinery/time";
import type { Handle, Outcome, PipelineRequest, WatchSink } from "../endpoints/outcome.ts";

/** A fault that is to happen. */
export interface RequestFault {
  /** Which requests it is for. Default: any. */
  readonly when?: (request: PipelineRequest) => boolean;
  /** How many requests it happens to. Default 1. */
  readonly times?: number;
  /** The error that is answered in place of the request's own answer; the request is not done. */
  readonly reason: StatusReason;
  readonly message?: string;
  /** Sent along with `TooManyRequests`, `ServiceUnavailable` and timeouts. */
  readonly retryAfterSeconds?: number;
}

/** What a test does to the server's clients. */
export interface Faults {
  /** Answers the next requests that match with an error. Returns how to take it back. */
  failNext(fault: RequestFault): () => void;
  /** Ends every open watch as if the connection broke; clients resume. */
  dropWatches(): void;
  /** Sends every open watch an ERROR 410 and ends it; clients list anew. */
  expireWatches(): void;
  /** Every request waits this long by the test's clock before it is done. 0: none does. */
  setLatency(ms: number): void;
  /** Requests that a fault has happened to so far. */
  readonly injected: number;
}

/** Puts faults in front of a pipeline. */
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

  /** Takes the watch over, so that it can be ended from here. */
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
