import type { Clock } from "@keelson/api-machinery/time";
import type { ApiRequest, Transport } from "@keelson/api-machinery/transport";
import type { Logger } from "@keelson/controller";

/** A transport that logs every request at debug with its status and duration. Watches and streams are logged when they open. */
export function traceRequests(transport: Transport, clock: Clock, log: Logger): Transport {
  const trace = async <T>(request: ApiRequest, send: () => Promise<T>, statusOf: (response: T) => number): Promise<T> => {
    const startedAt = clock.monotonic();
    const fields = { method: request.method, path: request.path + queryOf(request) };
    try {
      const response = await send();
      log.debug({ ...fields, status: statusOf(response), ms: Math.round(clock.monotonic() - startedAt) }, "request");
      return response;
    } catch (error) {
      log.debug({ ...fields, err: error, ms: Math.round(clock.monotonic() - startedAt) }, "request failed");
      throw error;
    }
  };
  const stream = transport.stream?.bind(transport);
  return {
    request: (request) =>
      trace(
        request,
        () => transport.request(request),
        ({ status }) => status,
      ),
    watch: (request) =>
      trace(
        request,
        () => transport.watch(request),
        () => 200,
      ),
    ...(stream === undefined
      ? {}
      : {
          stream: (request: ApiRequest) =>
            trace(
              request,
              () => stream(request),
              () => 200,
            ),
        }),
    close: () => transport.close(),
  };
}

function queryOf({ query = {} }: ApiRequest): string {
  const set = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined) set.append(name, value);
  return set.size === 0 ? "" : `?${set.toString()}`;
}
