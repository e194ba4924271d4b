import { isStatusError } from "@keelson/api-machinery";
import type { Outcome, PipelineRequest, RawOutcome } from "../endpoints/outcome.ts";
import type { ProxyTarget } from "../endpoints/proxy/proxy-target.ts";
import { exchange, type Route, switchProtocol } from "../endpoints/proxy/reverse-proxy.ts";
import type { Endpoint } from "../registry/ready-endpoints.ts";
import type { RemoteApi } from "./api-service.ts";
import { type FrontProxy, userHeaders } from "./front-proxy.ts";
import { connectionOptions, requireProxyable, type ServiceResponse } from "./service-request.ts";

/** The extension API server that receives a request. */
export interface AggregatedTarget {
  readonly api: RemoteApi;
  readonly endpoint: Endpoint;
  readonly frontProxy: FrontProxy;
}

const redirectRefused = "the backend attempted to redirect this request, which is not permitted";

/** The response while an extension API server is not available, in kube-aggregator's form. */
export function unavailable(message = "service unavailable", status = 503): RawOutcome {
  const headers = { "content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff" };
  return { kind: "raw", status, headers, body: `${message}\n` };
}

/**
 * Passes an authorized request on to an extension API server in the name of its sender. Redirects are refused, because they would reach
 * servers with this server's certificate. Requests within the process cannot be passed on.
 */
export async function forwardToService(request: PipelineRequest, target: AggregatedTarget): Promise<Outcome> {
  const { forwarded, user, signal } = request;
  if (forwarded === undefined) return unavailable("requests within the process are not passed on to extension API servers");
  const { api, endpoint, frontProxy } = target;
  requireProxyable(endpoint);
  const identity = { headers: userHeaders(user), connection: connectionOptions(api, frontProxy) };
  const proxyTarget: ProxyTarget = { scheme: "https", ...endpoint, identity };
  const route = routeOf(forwarded.url);
  if (forwarded.isUpgrade) return switchProtocol(proxyTarget, route, forwarded);
  try {
    const outcome = await exchange(proxyTarget, route, forwarded, signal);
    const { status } = outcome;
    if (status < 300 || status > 399 || status === 304) return outcome;
    if (typeof outcome.body === "object" && "destroy" in outcome.body && typeof outcome.body.destroy === "function") {
      outcome.body.destroy();
    }
    return unavailable(redirectRefused, 502);
  } catch (error) {
    if (isStatusError(error, "ServiceUnavailable")) return unavailable(error.message);
    throw error;
  }
}

/** Returns a document of an extension API server to a client, which must not be redirected to another host. */
export function forwardDocument({ status, body, contentType, location }: ServiceResponse): RawOutcome {
  if (location !== "" && !/^\/(?![/\\])[\x21-\x7e]*$/.test(location)) return unavailable(redirectRefused, 502);
  const headers = { "content-type": contentType || "application/json", ...(location === "" ? {} : { location }) };
  return { kind: "raw", status, headers, body };
}

function routeOf(url: string): Route {
  const local = url.replace(/^https?:\/\/[^/?]*/i, "");
  const mark = local.indexOf("?");
  return mark < 0
    ? { prefix: "", path: local, query: "" }
    : { prefix: "", path: local.slice(0, mark), query: local.slice(mark) };
}
