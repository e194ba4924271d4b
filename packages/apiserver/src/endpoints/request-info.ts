import { statusError } from "@keelson/api-machinery";

/** The attributes of a request to an object or a collection (kube-apiserver's RequestInfo). */
export interface ResourceRequestInfo {
  readonly isResource: true;
  /** `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`. */
  readonly verb: string;
  /** Percent-encoded, as received. */
  readonly path: string;
  /** `""` for the core group. */
  readonly group: string;
  readonly version: string;
  /** `""` if the path has none. For a Namespace object, its own name. */
  readonly namespace: string;
  /** The plural. */
  readonly resource: string;
  /** `""`, `status`, `scale`, `log` ... */
  readonly subresource: string;
  /** `""` for a collection, unless a field selector `metadata.name=x` narrows it to one object. */
  readonly name: string;
  /** The field selector of a list, a watch or the deletion of a collection; `""` for other requests. */
  readonly fieldSelector: string;
  /** Whether the path names an object. */
  readonly isNamed: boolean;
  /** The path after the subresource (`proxy`), without a leading slash; often `""`. */
  readonly rest: string;
}

/** The attributes of a request to a non-resource path: `/healthz`, `/apis`, `/openapi/v2`. */
export interface NonResourceRequestInfo {
  readonly isResource: false;
  /** The method in lower case. */
  readonly verb: string;
  readonly path: string;
}

/** The attributes of a request that are authorized. */
export type RequestInfo = ResourceRequestInfo | NonResourceRequestInfo;

/** Whether a boolean query parameter is true: present and neither `0` nor `false`, ignoring case. */
export function isTrue(value: string | undefined): boolean {
  return value !== undefined && value !== "0" && value.toLowerCase() !== "false";
}

/** Subresources of a Namespace; any other second segment names a resource inside it. */
const namespaceSubresources = new Set(["status", "finalize"]);

/** As in kube-apiserver, other methods have no verb, so that only a rule for every verb allows them. */
const verbs: Readonly<Record<string, string>> = {
  POST: "create",
  PUT: "update",
  PATCH: "patch",
  DELETE: "delete",
  GET: "get",
  HEAD: "get",
};

/**
 * Parses method, path and query. Throws `BadRequest` if the path has invalid percent-encoding.
 *
 *     /api/v1/namespaces/a/pods/b/log -> get pods/log, namespace a, name b
 *     /apis/apps/v1/deployments?watch=1 -> watch deployments in every namespace
 */
export function requestInfo(request: {
  readonly method: string;
  readonly path: string;
  readonly query?: Readonly<Record<string, string | undefined>>;
}): RequestInfo {
  const { path, query = {} } = request;
  const other = (): NonResourceRequestInfo => ({ isResource: false, verb: request.method.toLowerCase(), path });
  const segments = path.split("/").filter((segment) => segment !== "");
  const first = segments[0];
  const prefixLength = first === "api" ? 2 : first === "apis" ? 3 : 0;
  if (prefixLength === 0 || segments.length <= prefixLength) return other();
  let parts: string[];
  try {
    parts = path.includes("%") ? segments.map(decodeURIComponent) : segments;
  } catch {
    throw statusError("BadRequest", `the path ${JSON.stringify(path)} is not percent-encoded properly`);
  }
  const group = first === "api" ? "" : (parts[1] ?? "");
  const version = parts[prefixLength - 1] ?? "";
  let rest = parts.slice(prefixLength);
  let verb = verbs[request.method] ?? "";
  const isLegacyWatch = rest[0] === "watch" && rest.length > 1;
  if (isLegacyWatch) rest = rest.slice(1);
  let namespace = "";
  if (rest[0] === "namespaces" && rest[1] !== undefined) {
    namespace = rest[1];
    if (rest[2] !== undefined && !namespaceSubresources.has(rest[2])) rest = rest.slice(2);
  }
  const [resource = "", named, subresource = "", ...tail] = rest;
  let name = named ?? "";
  if (isLegacyWatch) verb = "watch";
  else if (named === undefined) {
    if (verb === "get") verb = isTrue(query["watch"]) ? "watch" : "list";
    else if (verb === "delete") verb = "deletecollection";
  }
  let fieldSelector = "";
  if (named === undefined && (verb === "list" || verb === "watch" || verb === "deletecollection")) {
    fieldSelector = query["fieldSelector"] ?? "";
    name = selectedValue(fieldSelector, "metadata.name") ?? "";
  }
  return {
    isResource: true,
    verb,
    path,
    group,
    version,
    namespace,
    resource,
    subresource,
    name,
    fieldSelector,
    isNamed: named !== undefined,
    rest: tail.join("/"),
  };
}

/** The value that a term `field=value` of a field selector requires; undefined if the selector has no such term. */
export function selectedValue(selector: string, field: string): string | undefined {
  for (const term of selector === "" ? [] : selector.split(",")) {
    const [, name, value] = /^\s*([^=!\s]+)\s*==?\s*([^=!\s]+)\s*$/.exec(term) ?? [];
    if (name === field) return value;
  }
  return undefined;
}
