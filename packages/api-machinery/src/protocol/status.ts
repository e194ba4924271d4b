/** One cause of a rejection (meta/v1 StatusCause). */
export interface StatusCause {
  /** The field's path as Kubernetes writes it: `spec.taskGroups[0].count`. */
  field?: string;
  message?: string;
  reason?: string;
}

/** The API's answer when it returns no object (meta/v1 Status). */
export interface Status {
  apiVersion: "v1";
  kind: "Status";
  metadata: Record<string, unknown>;
  status: "Success" | "Failure";
  message?: string;
  reason?: string;
  details?: {
    name?: string;
    group?: string;
    kind?: string;
    uid?: string;
    causes?: StatusCause[];
    retryAfterSeconds?: number;
  };
  code?: number;
}

/**
 * The values of `Status.reason` that Keelson uses (apimachinery StatusReason; `InsufficientStorage` is RFC 4918 section
 * 11.5).
 */
export type StatusReason =
  | "AlreadyExists"
  | "BadRequest"
  | "Conflict"
  | "Expired"
  | "Forbidden"
  | "Gone"
  | "InsufficientStorage"
  | "InternalError"
  | "Invalid"
  | "MethodNotAllowed"
  | "NotAcceptable"
  | "NotFound"
  | "RequestEntityTooLarge"
  | "ServerTimeout"
  | "ServiceUnavailable"
  | "Timeout"
  | "TooManyRequests"
  | "Unauthorized"
  | "UnsupportedMediaType";

const codes: Readonly<Record<StatusReason, number>> = {
  AlreadyExists: 409,
  BadRequest: 400,
  Conflict: 409,
  Expired: 410,
  Forbidden: 403,
  Gone: 410,
  InsufficientStorage: 507,
  InternalError: 500,
  Invalid: 422,
  MethodNotAllowed: 405,
  NotAcceptable: 406,
  NotFound: 404,
  RequestEntityTooLarge: 413,
  ServerTimeout: 500,
  ServiceUnavailable: 503,
  Timeout: 504,
  TooManyRequests: 429,
  Unauthorized: 401,
  UnsupportedMediaType: 415,
};

const brand = Symbol.for("keelson.StatusError");

/** An error from, or for, the API. Carries the whole Status. Test for it with {@link isStatusError}. */
export class StatusError extends Error {
  readonly status: Status;
  readonly [brand] = true;

  constructor(status: Status, options?: ErrorOptions) {
    super(status.message ?? status.reason ?? `HTTP ${status.code}`, options);
    this.name = "StatusError";
    this.status = status;
  }

  /** The HTTP status code. */
  get code(): number {
    return this.status.code ?? 500;
  }

  /** The reason, or `""`. */
  get reason(): string {
    return this.status.reason ?? "";
  }
}

/** Creates a {@link StatusError} from a reason, a message and optional details. The code follows from the reason. */
export function statusError(reason: StatusReason, message: string, details?: Status["details"]): StatusError {
  return new StatusError({
    kind: "Status",
    apiVersion: "v1",
    metadata: {},
    status: "Failure",
    message,
    reason,
    ...(details ? { details } : {}),
    code: codes[reason],
  });
}

/** Creates an error for which kube-apiserver has no reason: code 500 with the message as given. */
export function unclassifiedError(message: string): StatusError {
  return new StatusError({ kind: "Status", apiVersion: "v1", metadata: {}, status: "Failure", message, code: 500 });
}

/**
 * Reports whether `error` is a {@link StatusError}, optionally with the given reason. Works across copies of this package.
 */
export function isStatusError(error: unknown, reason?: StatusReason): error is StatusError {
  if (typeof error !== "object" || error === null || !(brand in error)) return false;
  return reason === undefined || (error as StatusError).status.reason === reason;
}

/** Reports whether `error` is a `NotFound` from the API. */
export const isNotFound = (error: unknown): error is StatusError => isStatusError(error, "NotFound");
/** Awaits a request. Resolves to `undefined` if the API responds with `NotFound`. */
export async function ignoreNotFound<T>(request: Promise<T>): Promise<T | undefined> {
  try {
    return await request;
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

/** Reports whether `error` means that the kind is not served, as opposed to an object that was not found. */
export const isMissingKind = (error: unknown): error is StatusError =>
  isNotFound(error) && error.status.details?.name === undefined;

/** Reports whether the API rejects a write because the namespace of the object is being deleted, or was deleted. */
export function isNamespaceTerminating(error: unknown): error is StatusError {
  if (isNotFound(error)) return error.status.details?.kind === "namespaces";
  return (
    isStatusError(error, "Forbidden") &&
    (error.status.details?.causes?.some(({ reason }) => reason === "NamespaceTerminating") ?? false)
  );
}

/** Reports whether `error` is a `Conflict` from the API. */
export const isConflict = (error: unknown): error is StatusError => isStatusError(error, "Conflict");
/** Reports whether `error` is an `AlreadyExists` from the API. */
export const isAlreadyExists = (error: unknown): error is StatusError => isStatusError(error, "AlreadyExists");

/** Reports whether a list or watch must start over because its resourceVersion was compacted (410, `Expired` or `Gone`). */
export const isExpired = (error: unknown): error is StatusError =>
  isStatusError(error, "Expired") || isStatusError(error, "Gone");
