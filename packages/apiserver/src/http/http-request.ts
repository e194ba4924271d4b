import type { IncomingMessage } from "node:http";
import { methodNotAllowed } from "../endpoints/errors.ts";
import type { ForwardedRequest, PipelineRequest } from "../endpoints/outcome.ts";
import type { RequestAudit } from "../audit/request-audit.ts";
import type { UserInfo } from "../registry/served-resource.ts";
import type { BodyReader } from "./body/request-body.ts";
import type { LazyAbort } from "./lazy-abort.ts";
import { isRouted, notAcceptable, notRouted, type Representation } from "./negotiation.ts";
import { attributesOf } from "./request-accounting.ts";
import { includeObject, isApiMethod, isResourcePath, plainHeaders, type Target } from "./request-target.ts";

/** What {@link pipelineRequest} takes. */
export interface HttpRequestOptions {
  readonly request: IncomingMessage;
  readonly target: Target;
  readonly user: UserInfo;
  readonly audit: RequestAudit | undefined;
  readonly accepted: readonly Representation[];
  readonly abort: LazyAbort;
  /** The bytes after an upgrade request are not a body. */
  readonly isUpgrade: boolean;
  readonly bodies: BodyReader;
  /** Whether requests of a path are passed on to an extension API server. */
  readonly isAggregated?: ((path: string) => boolean) | undefined;
}

/**
 * Returns an HTTP request as the pipeline takes it. Its body is read and parsed by `receive`, which the pipeline calls after
 * authorization.
 *
 * **Errors**: `MethodNotAllowed` for a method that cannot be passed on to another server.
 */
export function pipelineRequest(options: HttpRequestOptions): PipelineRequest {
  const { request, target, user, audit, accepted, abort, isUpgrade, bodies } = options;
  const isForwarded = isProxyPath(target.path) || options.isAggregated?.(target.path) === true;
  const method = request.method === "HEAD" ? "GET" : request.method;
  if (isForwarded && !isApiMethod(method) && method !== "OPTIONS") throw methodNotAllowed();
  let received: Promise<void> | undefined;
  const result: PipelineRequest = {
    method: method as PipelineRequest["method"],
    path: target.path,
    query: target.query,
    ...(target.repeatedDryRun === undefined ? {} : { repeatedDryRun: target.repeatedDryRun }),
    info: attributesOf({ method: method ?? "", path: target.path, query: target.query }),
    headers: plainHeaders(request),
    get signal() {
      return abort.signal;
    },
    user,
    userAgent: request.headers["user-agent"],
    acceptsSlices: true,
    audit,
    receive(isTyped) {
      received ??= receive(isTyped);
      return received;
    },
    ...(isForwarded ? { forwarded: forwardedRequest(request, isUpgrade) } : {}),
  };
  const receive = async (isTyped: boolean): Promise<void> => {
    if (isUpgrade) return;
    // kube-apiserver has routes for HEAD to custom resources only.
    if (isTyped && request.method === "HEAD") throw methodNotAllowed();
    // A patch with an unknown media type fails before an unacceptable response type; other requests the other way round.
    const patch = method === "PATCH" ? await bodies.read(request, { mergesDuplicates: false, isTyped }) : undefined;
    if (isResourcePath(target.path)) requireAcceptable(isTyped);
    includeObject(target.query);
    const body = patch ?? (method === "GET" ? undefined : await bodies.read(request, { mergesDuplicates: isTyped, isTyped }));
    if (body?.value === undefined) return;
    const { value, bytes, duplicateFields, duplicateKeys, fieldPositions } = body;
    Object.assign(result, { body: value, bodyBytes: bytes, duplicateFields, duplicateKeys, fieldPositions });
  };
  const requireAcceptable = (isTyped: boolean): void => {
    const { accept } = request.headers;
    if (isTyped && !isRouted(accept)) {
      const { info } = result;
      throw notRouted(undefined, method === "GET" && info?.isResource === true && !info.isNamed);
    }
    // Custom resources have no messages, except for their metadata.
    const isAccepted = isTyped
      ? accepted.length > 0
      : accepted.some(({ format, as }) => format !== "protobuf" || as !== undefined);
    if (!isAccepted) throw notAcceptable();
  };
  return result;
}

/** Whether a path is below the `proxy` subresource of a Pod, Service or Node. */
function isProxyPath(path: string): boolean {
  return (
    path.includes("/proxy") && /^\/api\/v1\/(?:namespaces\/[^/]+\/(?:pods|services)|nodes)\/[^/]+\/proxy(?:\/|$)/.test(path)
  );
}

function forwardedRequest(request: IncomingMessage, isUpgrade: boolean): ForwardedRequest {
  const { method = "GET", url = "/", headers } = request;
  return { method, url, headers, isUpgrade, body: () => request };
}
