import { type Status, StatusError, statusError } from "@keelson/api-machinery";
import type { StatusCause } from "@keelson/api-machinery/validation";

/** What an error needs of a kind to name it as kube-apiserver does. */
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
export function qualifiedKind({ group, kind }: { readonly group: string; readonly kind: string }): string {
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

export function notFound(resource: Pick<Named, "group" | "plural">, name: string): StatusError {
  const message = `${qualifiedResource(resource)} ${JSON.stringify(name)} not found`;
  return statusError("NotFound", message, detailsOf(name, resource.group, resource.plural));
}

/** The URL leads to no kind that is served. */
export function unknownResource(): StatusError {
  return statusError("NotFound", "the server could not find the requested resource", {});
}

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

/** A delete's precondition does not hold. Kubernetes names the kind here, not the resource. */
export function preconditionFailed(resource: Named, name: string, why: string): StatusError {
  const message = `Operation cannot be fulfilled on ${qualifiedKind(resource)} ${JSON.stringify(name)}: ${why}`;
  return statusError("Conflict", message, { name });
}

export function invalid(kind: Pick<Named, "group" | "kind">, name: string, causes: readonly StatusCause[]): StatusError {
  const texts = causes.map(({ field, message }) => (field ? `${field}: ${message ?? ""}` : (message ?? "")));
  const list = texts.length === 1 ? texts[0] : `[${texts.join(", ")}]`;
  const message = `${qualifiedKind(kind)} ${JSON.stringify(name)} is invalid: ${list}`;
  return statusError("Invalid", message, detailsOf(name, kind.group, kind.kind, causes));
}

export function badRequest(message: string): StatusError {
  return statusError("BadRequest", message);
}

/** The verb does not go there. Of custom resources Kubernetes names the resource. */
export function methodNotAllowed(resource?: {
  readonly group: string;
  readonly plural: string;
  readonly origin: "builtin" | "custom";
}): StatusError {
  const details = resource?.origin === "custom" ? { group: resource.group, kind: resource.plural } : {};
  return statusError("MethodNotAllowed", "the server does not allow this method on the requested resource", details);
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

/** The client has seen a revision that this server has not made. `retryAfterSeconds`: when it may ask again; default: not said. */
export function tooLargeResourceVersion(requested: number, current: number, retryAfterSeconds?: number): StatusError {
  return statusError("Timeout", `Timeout: Too large resource version: ${requested}, current: ${current}`, {
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
    causes: [{ reason: "ResourceVersionTooLarge", message: "Too large resource version" }],
  });
}

/** Kinds of options of meta.k8s.io, as errors name them. */
export type OptionsKind = "CreateOptions" | "UpdateOptions" | "PatchOptions" | "DeleteOptions" | "ListOptions";

/** A query parameter or a field of DeleteOptions that is wrong. */
export function invalidOptions(kind: OptionsKind, ...causes: readonly StatusCause[]): StatusError {
  return invalid({ group: "meta.k8s.io", kind }, "", causes);
}

/** The answer to a delete that is done. */
export function deletedStatus(resource: Named, name: string, uid: string | undefined): Status {
  return {
    kind: "Status",
    apiVersion: "v1",
    metadata: {},
    status: "Success",
    details: { ...detailsOf(name, resource.group, resource.plural), ...(uid === undefined ? {} : { uid }) },
  };
}

/** Any error as the Status that a client gets; those that are not the API's own become InternalError. */
export function statusOf(error: unknown): Status {
  if (
    error instanceof StatusError ||
    (typeof error === "object" && error !== null && "status" in error && isStatus(error.status))
  ) {
    return (error as StatusError).status;
  }
  const message = error instanceof Error ? error.message : String(error);
  return statusError("InternalError", `Internal error occurred: ${message}`, { causes: [{ message }] }).status;
}

function isStatus(value: unknown): value is Status {
  return typeof value === "object" && value !== null && "kind" in value && value.kind === "Status";
}
