import { type ApiRequest, type Clock, isStatusError, type Transport } from "@keelson/api-machinery";
import type { AccumulatedHistogram, AccumulatedNumber, Accumulator, Distribution } from "./accumulated-metrics.ts";

/** Told of every request when it is answered: its code, `<error>` where no answer came, and how long that took. */
export type OnAnswered = (request: ApiRequest, code: string, ms: number) => void;

/** The transport, with every answer told. */
export function measuredTransport(transport: Transport, clock: Clock, onAnswered: OnAnswered): Transport {
  const measured = async <R>(request: ApiRequest, send: () => Promise<R>, codeOf: (answer: R) => number): Promise<R> => {
    const startedAt = clock.monotonic();
    const tell = (code: string): void => onAnswered(request, code, clock.monotonic() - startedAt);
    try {
      const answer = await send();
      tell(String(codeOf(answer)));
      return answer;
    } catch (error) {
      tell(isStatusError(error) ? String(error.status.code ?? 500) : "<error>");
      throw error;
    }
  };
  const stream = transport.stream?.bind(transport);
  return {
    request: (request) =>
      measured(
        request,
        () => transport.request(request),
        ({ status }) => status,
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

/** Counts what is told, under the labels that the metrics have: code, method and host; verb and host. */
export function requestMeter(
  requests: AccumulatedNumber,
  seconds: AccumulatedHistogram,
): (request: ApiRequest, host: string, code: string, ms: number) => void {
  const counts = new Map<string, Accumulator>();
  const durations = new Map<string, Distribution>();
  return ({ method }, host, code, ms) => {
    const counted = `${code} ${method} ${host}`;
    let count = counts.get(counted);
    if (count === undefined) counts.set(counted, (count = requests.child(code, method, host)));
    count.value++;
    const timed = `${method} ${host}`;
    let duration = durations.get(timed);
    if (duration === undefined) durations.set(timed, (duration = seconds.child(method, host)));
    duration.observe(ms / 1000);
  };
}
