import type { ResourceTable } from "../registry/served-resource.ts";
import { unknownResource } from "./errors.ts";
import type { StatusOutcome } from "./outcome.ts";

/**
 * The response for a path that the server does not have. As in kube-apiserver it is a Status below a prefix of built-in kinds, and plain
 * text elsewhere, including custom resources that do not exist. In-process clients receive the Status in both cases.
 */
export function absentPath(path: string, resources: Pick<ResourceTable, "list">): StatusOutcome {
  const { status } = unknownResource();
  return hasBuiltinPrefix(path, resources)
    ? { kind: "status", status }
    : { kind: "status", status, text: "404 page not found\n" };
}

/** Whether documents at this path reject methods other than GET. As in kube-apiserver, health checks, OpenAPI and group lists ignore the method. */
export function isReadOnlyPath(path: string, resources: Pick<ResourceTable, "list">): boolean {
  return !/^\/apis(?:\/[^/]*)?\/?$/.test(path) && hasBuiltinPrefix(path, resources);
}

/** Whether a path is below a prefix whose kinds or documents are part of the server. */
function hasBuiltinPrefix(path: string, resources: Pick<ResourceTable, "list">): boolean {
  if (/^\/(?:api|version|openid\/v1|\.well-known\/openid-configuration)(?:\/|$)/.test(path)) return true;
  const group = /^\/apis\/([^/]+)(?:\/|$)/.exec(path)?.[1];
  return group !== undefined && resources.list().some((resource) => resource.origin === "builtin" && resource.group === group);
}
