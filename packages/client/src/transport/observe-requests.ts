import { isStatusError } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { ApiRequest, Transport, WireFigures } from "@keelson/api-machinery/transport";

/** The outcome of a request. */
export interface RequestOutcome {
  /** The status code, or `<error>` if there was no response. */
  readonly code: string;
  readonly ms: number;
  readonly wire?: WireFigures | undefined;
  /** What the request was rejected with. */
  readonly error?: unknown;
}

/** Called with the outcome of every request. */
export type OnOutcome = (request: ApiRequest, outcome: RequestOutcome) => void;

/**
 * A transport that reports the outcome of every request; watches and streams are reported when they open. Errors of the listener do not
 * affect the response.
 */
export function observeRequests(transport: Transport, clock: Clock, onOutcome: OnOutcome): Transport {
  const observed = async <R>(
    request: ApiRequest,
    send: () => Promise<R>,
    codeOf: (response: R) => number,
    wireOf?: (response: R) => WireFigures | undefined,
  ): Promise<R> => {
    const startedAt = clock.monotonic();
    const report = (outcome: Omit<RequestOutcome, "ms">): void => {
      try {
        onOutcome(request, { ...outcome, ms: clock.monotonic() - startedAt });
      } catch {
        // A lost metric or log line must not cost a response.
      }
    };
    let response: R;
    try {
      response = await send();
    } catch (error) {
      report({ code: isStatusError(error) ? String(error.status.code ?? 500) : "<error>", error });
      throw error;
    }
    report({ code: String(codeOf(response)), wire: wireOf?.(response) });
    return response;
  };
  const opened = (): number => 200;
  const stream = transport.stream?.bind(transport);
  return {
    request: (request) =>
      observed(
        request,
        () => transport.request(request),
        ({ status }) => status,
        ({ wire }) => wire,
      ),
    watch: (request) => observed(request, () => transport.watch(request), opened),
    ...(stream === undefined ? {} : { stream: (request: ApiRequest) => observed(request, () => stream(request), opened) }),
    close: () => transport.close(),
  };
}
