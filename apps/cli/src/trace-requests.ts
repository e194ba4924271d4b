import type { Clock } from "@keelson/api-machinery/time";
import type { ApiRequest, Transport } from "@keelson/api-machinery/transport";
import { observeRequests } from "@keelson/client";
import type { Logger } from "@keelson/controller";

/** A transport that logs every request at debug with its status and duration. Watches and streams are logged when they open. */
export function traceRequests(transport: Transport, clock: Clock, log: Logger): Transport {
  return observeRequests(transport, clock, (request, { code, ms, error }) => {
    const fields = { method: request.method, path: request.path + queryText(request), ms: Math.round(ms) };
    if (error === undefined) log.debug({ ...fields, status: Number(code) }, "request");
    else log.debug({ ...fields, err: error }, "request failed");
  });
}

function queryText({ query = {} }: ApiRequest): string {
  const set = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined) set.append(name, value);
  return set.size === 0 ? "" : `?${set.toString()}`;
}
