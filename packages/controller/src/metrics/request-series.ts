import type { ApiRequest } from "@keelson/api-machinery/transport";
import type { RequestOutcome } from "@keelson/client";
import type { AccumulatedHistogram, AccumulatedNumber, Accumulator, Distribution } from "./accumulated-metrics.ts";

/** Metrics of requests, with client-go's labels. */
export interface RequestSeries {
  /** By code, method and host. */
  readonly requests: AccumulatedNumber;
  /** By code, verb and host. The code is that of the response before the retry. */
  readonly retries: AccumulatedNumber;
  /** By verb and host, as the next two. */
  readonly seconds: AccumulatedHistogram;
  readonly sentBytes: AccumulatedHistogram;
  readonly receivedBytes: AccumulatedHistogram;
}

/** Returns a function that counts requests to a host. */
export function requestMeter(series: RequestSeries): (request: ApiRequest, host: string, outcome: RequestOutcome) => void {
  const { requests, retries, seconds, sentBytes, receivedBytes } = series;
  const counts = new Map<string, Accumulator>();
  const repeats = new Map<string, Accumulator>();
  const distributions = new Map<string, Record<"seconds" | "sent" | "received", Distribution>>();
  const kept = <V>(map: Map<string, V>, key: string, make: () => V): V => {
    let value = map.get(key);
    if (value === undefined) map.set(key, (value = make()));
    return value;
  };
  return ({ method, repeats: code }, host, outcome) => {
    kept(counts, `${outcome.code} ${method} ${host}`, () => requests.child(outcome.code, method, host)).value++;
    const repeated = (after: string, times: number): void => {
      kept(repeats, `${after} ${method} ${host}`, () => retries.child(after, method, host)).value += times;
    };
    if (code !== undefined) repeated(String(code), 1);
    const { ms, wire } = outcome;
    if (wire !== undefined && wire.repeats > 0) repeated("<error>", wire.repeats);
    const of = kept(distributions, `${method} ${host}`, () => ({
      seconds: seconds.child(method, host),
      sent: sentBytes.child(method, host),
      received: receivedBytes.child(method, host),
    }));
    of.seconds.observe(ms / 1000);
    if (wire === undefined) return;
    of.sent.observe(wire.sentBytes);
    of.received.observe(wire.receivedBytes);
  };
}
