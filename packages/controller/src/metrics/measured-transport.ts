import { isStatusError } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { ApiRequest, Transport, WireFigures } from "@keelson/api-machinery/transport";
import type { AccumulatedHistogram, AccumulatedNumber, Accumulator, Distribution } from "./accumulated-metrics.ts";

/** How a request was answered. */
export interface Answered {
  /** The status code, or `<error>` where no answer came. */
  readonly code: string;
  readonly ms: number;
  readonly wire?: WireFigures | undefined;
}

/** Told of every request when it is answered. */
export type OnAnswered = (request: ApiRequest, answered: Answered) => void;

/** The transport, with every answer told. What the one who is told throws, changes no answer. */
export function measuredTransport(transport: Transport, clock: Clock, onAnswered: OnAnswered): Transport {
  const measured = async <R>(
    request: ApiRequest,
    send: () => Promise<R>,
    codeOf: (answer: R) => number,
    wireOf?: (answer: R) => WireFigures | undefined,
  ): Promise<R> => {
    const startedAt = clock.monotonic();
    const tell = (code: string, wire?: WireFigures): void => {
      try {
        onAnswered(request, { code, ms: clock.monotonic() - startedAt, wire });
      } catch {
        // A figure less is no reason to lose an answer.
      }
    };
    let answer: R;
    try {
      answer = await send();
    } catch (error) {
      tell(isStatusError(error) ? String(error.status.code ?? 500) : "<error>");
      throw error;
    }
    tell(String(codeOf(answer)), wireOf?.(answer));
    return answer;
  };
  const stream = transport.stream?.bind(transport);
  return {
    request: (request) =>
      measured(
        request,
        () => transport.request(request),
        ({ status }) => status,
        ({ wire }) => wire,
      ),
    watch: (request) =>
      measured(
        request,
        () => transport.watch(request),
        () => 200,
      ),
    ...(stream === undefined
      ? {}
      : {
          stream: (request: ApiRequest) =>
            measured(
              request,
              () => stream(request),
              () => 200,
            ),
        }),
    close: () => transport.close(),
  };
}

/** Where requests are counted, under client-go's labels. */
export interface RequestSeries {
  /** By code, method and host. */
  readonly requests: AccumulatedNumber;
  /** By code, verb and host: the answer that each repetition followed. */
  readonly retries: AccumulatedNumber;
  /** By verb and host, as the two after it. */
  readonly seconds: AccumulatedHistogram;
  readonly sentBytes: AccumulatedHistogram;
  readonly receivedBytes: AccumulatedHistogram;
}

/** Counts what is told of requests to `host`. */
export function requestMeter(series: RequestSeries): (request: ApiRequest, host: string, answered: Answered) => void {
  const { requests, retries, seconds, sentBytes, receivedBytes } = series;
  const counts = new Map<string, Accumulator>();
  const repeats = new Map<string, Accumulator>();
  const distributions = new Map<string, Record<"seconds" | "sent" | "received", Distribution>>();
  const kept = <V>(map: Map<string, V>, key: string, make: () => V): V => {
    let value = map.get(key);
    if (value === undefined) map.set(key, (value = make()));
    return value;
  };
  return ({ method, repeats: code }, host, answered) => {
    kept(counts, `${answered.code} ${method} ${host}`, () => requests.child(answered.code, method, host)).value++;
    const repeated = (after: string, times: number): void => {
      kept(repeats, `${after} ${method} ${host}`, () => retries.child(after, method, host)).value += times;
    };
    if (code !== undefined) repeated(String(code), 1);
    const { ms, wire } = answered;
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
