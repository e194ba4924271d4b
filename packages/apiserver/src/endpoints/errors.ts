import { isStatusError, type Status, type StatusError, statusError } from "@keelson/api-machinery";
import { maxCauses, shorten, type StatusCause } from "@keelson/api-machinery/validation";

/** The part of a kind that kube-apiserver's errors mention. */
interface Named {
  readonly group: string;
  readonly plural: string;
  readonly kind: string;
}

/** `jobs.batch`; `pods` of the core group. */
export function qualifiedResource({ group, plural }: { readonly group: string; readonly plural: string }): string {
  return group === "" ? plural : `${plural}.${group}`;
}

/** `Job.batch`; `Pod` of the core group. */
function qualifiedKind({ group, kind }: { readonly group: string; readonly kind: string }): string {
  return group === "" ? kind : `${kind}.${group}`;
}

function detailsOf(name: string, group: string, kind: string, causes?: readonly StatusCause[]): NonNullable<Status["details"]> {
  return {
    ...(name === "" ? {} : { name }),
    ...(group === "" ? {} : { group }),
    ...(kind === "" ? {} : { kind }),
    ...(causes === undefined || causes.length === 0 ? {} : { causes: [...causes] }),
  };
}

/** `pods "x" not found`. */
export function notFound(resource: Pick<Named, "group" | "plural">, name: string): StatusError {
  const message = `${qualifiedResource(resource)} ${JSON.stringify(name)} not found`;
  return statusError("NotFound", message, detailsOf(name, resource.group, resource.plural));
}

/** No kind is served at the URL. */
export function unknownResource(): StatusError {
  return statusError("NotFound", "the server could not find the requested resource", {});
}

/** `pods "x" already exists`, with a hint if the existing object is terminating. */
export function alreadyExists(resource: Named, name: string, isBeingDeleted: boolean): StatusError {
  const text = `${qualifiedResource(resource)} ${JSON.stringify(name)} already exists`;
  const message = isBeingDeleted ? `object is being deleted: ${text}` : text;
  return statusError("AlreadyExists", message, detailsOf(name, resource.group, resource.plural));
}

/** `Operation cannot be fulfilled on pods "x": <why>`. */
export function conflict(resource: Pick<Named, "group" | "plural">, name: string, why?: string): StatusError {
  const reason = why ?? "the object has been modified; please apply your changes to the latest version and try again";
  const message = `Operation cannot be fulfilled on ${qualifiedResource(resource)} ${JSON.stringify(name)}: ${reason}`;
  return statusError("Conflict", message, detailsOf(name, resource.group, resource.plural));
}

/** A delete's precondition does not hold. kube-apiserver names the kind here, not the resource. */
export function preconditionFailed(resource: Named, name: string, why: string): StatusError {
  const { group, kind } = validatedKind(resource);
  const message = `Operation cannot be fulfilled on ${qualifiedKind({ group, kind })} ${JSON.stringify(name)}: ${why}`;
  return statusError("Conflict", message, { name, ...(group === "" ? {} : { group }), kind });
}

/** `Pod "x" is invalid: <causes>`. */
export function invalid(kind: Pick<Named, "group" | "kind">, name: string, all: readonly StatusCause[]): StatusError {
  const causes = all.length > maxCauses ? all.slice(0, maxCauses) : all;
  // The message lists each distinct cause once.
  const texts = [...new Set(causes.map(({ field, message }) => (field ? `${field}: ${message ?? ""}` : (message ?? ""))))];
  const list = texts.length === 1 ? texts[0] : `[${texts.join(", ")}]`;
  const shown = validatedKind(kind);
  const shownName = shorten(name);
  const message = `${qualifiedKind(shown)} ${JSON.stringify(shownName)} is invalid: ${list}`;
  return statusError("Invalid", message, detailsOf(shownName, shown.group, shown.kind, causes));
}

/** Events of both groups are validated and deleted as those of the core group. */
function validatedKind(kind: Pick<Named, "group" | "kind">): Pick<Named, "group" | "kind"> {
  return kind.group === "events.k8s.io" ? { group: "", kind: kind.kind } : kind;
}

/** A request that cannot be read (400). */
export function badRequest(message: string): StatusError {
  return statusError("BadRequest", message);
}

/** The resource does not support the verb. kube-apiserver names verb and resource only for custom ones. */
export function methodNotAllowed(
  resource?: { readonly group: string; readonly plural: string; readonly origin: "builtin" | "custom" },
  verb = "",
): StatusError {
  if (resource?.origin !== "custom") {
    return statusError("MethodNotAllowed", "the server does not allow this method on the requested resource", {});
  }
  const message = `${verb} is not supported on resources of kind ${JSON.stringify(qualifiedResource(resource))}`;
  return statusError("MethodNotAllowed", message, { group: resource.group, kind: resource.plural });
}

/** `pods "x" is forbidden: <why>`. */
export function forbidden(
  resource: Pick<Named, "group" | "plural">,
  name: string,
  why: string,
  causes?: readonly StatusCause[],
): StatusError {
  const subject = `${qualifiedResource(resource)}${name === "" ? "" : ` ${JSON.stringify(name)}`}`;
  const message = `${subject} is forbidden: ${why}`;
  return statusError("Forbidden", message, detailsOf(name, resource.group, resource.plural, causes));
}

/** The requested revision is newer than this server's. `retryAfterSeconds` is omitted by default. */
export function tooLargeResourceVersion(requested: number, current: number, retryAfterSeconds?: number): StatusError {
  return statusError("Timeout", `Timeout: Too large resource version: ${requested}, current: ${current}`, {
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
    causes: [{ reason: "ResourceVersionTooLarge", message: "Too large resource version" }],
  });
}

/** Kinds of request options in meta.k8s.io, as errors name them. */
export type OptionsKind = "CreateOptions" | "UpdateOptions" | "PatchOptions" | "DeleteOptions" | "ListOptions";

/** An invalid query parameter or field of DeleteOptions. */
export function invalidOptions(kind: OptionsKind, ...causes: readonly StatusCause[]): StatusError {
  return invalid({ group: "meta.k8s.io", kind }, "", causes);
}

/** The response to a completed delete. */
export function deletedStatus(resource: Named, name: string, uid: string | undefined): Status {
  return {
    kind: "Status",
    apiVersion: "v1",
    metadata: {},
    status: "Success",
    details: { ...detailsOf(name, resource.group, resource.plural), ...(uid === undefined ? {} : { uid }) },
  };
}

/** The Status that a client receives for an error. Anything but a StatusError becomes an InternalError. */
export function statusOf(error: unknown): Status {
  if (isStatusError(error)) return error.status;
  const message = error instanceof Error ? error.message : String(error);
  return statusError("InternalError", `Internal error occurred: ${message}`, { causes: [{ message }] }).status;
}
