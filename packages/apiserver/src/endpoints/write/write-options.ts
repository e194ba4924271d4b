import { isJsonObject, type JsonObject } from "@keelson/api-machinery";
import type { StatusCause } from "@keelson/api-machinery/validation";
import { badRequest, invalid, invalidOptions, type OptionsKind } from "../errors.ts";
import type { PipelineRequest } from "../outcome.ts";
import { isTrue } from "../request-info.ts";

/** How unknown and duplicate fields are handled. */
export type FieldValidation = "Ignore" | "Warn" | "Strict";

/** Options of create, update and patch, from the query. */
export interface WriteOptions {
  readonly isDryRun: boolean;
  /** At most 128 printable characters. Default: the User-Agent's part before the first `/`. */
  readonly fieldManager: string;
  readonly fieldValidation: FieldValidation;
  /** Apply only: take ownership of fields from other managers. */
  readonly isForced: boolean;
}

const maxManagerLength = 128;

/** Parses the options of a write. Throws `Invalid`. */
export function writeOptions(request: PipelineRequest, kind: OptionsKind, isApply = false): WriteOptions {
  const query = request.query ?? {};
  const named = query["fieldManager"] ?? "";
  const dryRun = query["dryRun"] === undefined ? [] : [query["dryRun"]];
  const causes = [
    forceProblem(query, kind, isApply),
    isApply && named === "" ? managerRequired : undefined,
    managerProblem(named),
    dryRunProblem(dryRun),
    fieldValidationProblem(query["fieldValidation"]),
  ].filter((cause) => cause !== undefined);
  if (causes.length > 0) throw invalidOptions(kind, ...causes);
  return {
    isDryRun: dryRun.length > 0,
    fieldManager: named === "" ? managerOfUserAgent(request.userAgent) : named,
    fieldValidation: fieldValidation(query["fieldValidation"]),
    isForced: isTrue(query["force"]),
  };
}

const managerRequired: StatusCause = {
  reason: "FieldValueRequired",
  field: "fieldManager",
  message: "Required value: is required for apply patch",
};

function forceProblem(query: Readonly<Record<string, unknown>>, kind: OptionsKind, isApply: boolean): StatusCause | undefined {
  if (kind !== "PatchOptions" || isApply || query["force"] === undefined) return undefined;
  return { reason: "FieldValueForbidden", field: "force", message: "Forbidden: may not be specified for non-apply patch" };
}

/** The User-Agent's part before the first `/`, truncated and stripped to a valid manager name. */
function managerOfUserAgent(userAgent: string | undefined): string {
  const first = (userAgent ?? "").split("/", 1)[0] ?? "";
  if (first !== "" && plainManager.test(first)) return first;
  const printable = [...first].filter((character) => !isUnprintable(character)).join("");
  return printable.slice(0, maxManagerLength) || "unknown";
}

function isUnprintable(character: string): boolean {
  return /[\p{C}\p{Zl}\p{Zp}]/u.test(character);
}

/** Fast path for names that are valid without further checks. */
const plainManager = /^[\x20-\x7e]{0,128}$/;

function managerProblem(manager: string): StatusCause | undefined {
  if (plainManager.test(manager)) return undefined;
  const field = "fieldManager";
  if (Buffer.byteLength(manager) > maxManagerLength) {
    return { reason: "FieldValueTooLong", field, message: `Too long: must have at most ${maxManagerLength} bytes` };
  }
  const position = [...manager].findIndex(isUnprintable);
  if (position < 0) return undefined;
  const code = ([...manager][position] ?? "").codePointAt(0) ?? 0;
  const character = `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
  return {
    reason: "FieldValueInvalid",
    field,
    message: `Invalid value: ${JSON.stringify(manager)}: invalid character ${character} (at position ${position})`,
  };
}

function dryRunProblem(values: readonly unknown[]): StatusCause | undefined {
  if (values.every((value) => value === "All")) return undefined;
  const shown = values.map((value) => JSON.stringify(value)).join(", ");
  return {
    reason: "FieldValueNotSupported",
    field: "dryRun",
    message: `Unsupported value: []string{${shown}}: supported values: "All"`,
  };
}

function isDryRun(values: readonly unknown[], kind: OptionsKind): boolean {
  const cause = dryRunProblem(values);
  if (cause !== undefined) throw invalidOptions(kind, cause);
  return values.length > 0;
}

function fieldValidation(value: string | undefined): FieldValidation {
  return value === "Ignore" || value === "Strict" ? value : "Warn";
}

function fieldValidationProblem(value: string | undefined): StatusCause | undefined {
  if (value === undefined || ["", "Ignore", "Warn", "Strict"].includes(value)) return undefined;
  return {
    reason: "FieldValueNotSupported",
    field: "fieldValidation",
    message: `Unsupported value: ${JSON.stringify(value)}: supported values: "", "Ignore", "Strict", "Warn"`,
  };
}

/** Options of a delete, from its body and query. The body takes precedence. */
export interface DeleteOptions {
  readonly isDryRun: boolean;
  readonly gracePeriodSeconds?: number;
  readonly propagationPolicy?: "Orphan" | "Background" | "Foreground";
  readonly uid?: string;
  readonly resourceVersion?: string;
  /** Whether the request has `orphanDependents: false`, which changes the response's status code. */
  readonly isCascadeRequested: boolean;
  /** As admission sees them (meta/v1 DeleteOptions). */
  readonly sent: JsonObject;
}

/** Parses DeleteOptions (meta/v1). Throws `BadRequest` or `Invalid`. */
export function deleteOptions(request: PipelineRequest): DeleteOptions {
  const query = request.query ?? {};
  const body = request.body ?? {};
  if (!isJsonObject(body)) throw badRequest("the body of a delete must be DeleteOptions");
  if (body["kind"] !== undefined && body["kind"] !== "DeleteOptions") {
    throw badRequest(`the body of a delete must be DeleteOptions, not ${JSON.stringify(body["kind"])}`);
  }
  const field = (name: string): unknown => body[name] ?? query[name];
  const bodyGrace = body["gracePeriodSeconds"] ?? 0;
  if (typeof bodyGrace !== "number") throw wrongGracePeriod(bodyGrace);
  const grace = gracePeriod(field("gracePeriodSeconds"));
  const orphan = field("orphanDependents");
  const policy = field("propagationPolicy");
  const orphanDependents = orphan === undefined || orphan === "" ? undefined : isTrue(String(orphan));
  const dryRun = body["dryRun"] ?? (query["dryRun"] === undefined ? [] : [query["dryRun"]]);
  if (!Array.isArray(dryRun)) throw badRequest("dryRun must be a list of strings");
  if (policy !== undefined && policy !== "" && orphanDependents !== undefined) {
    throw invalidOptions("DeleteOptions", {
      reason: "FieldValueInvalid",
      field: "propagationPolicy",
      message: `Invalid value: ${JSON.stringify(policy)}: orphanDependents and deletionPropagation cannot be both set`,
    });
  }
  // Without a body, the query may contain preconditions.
  const { uid, resourceVersion } = preconditionsOf(
    request.body === undefined ? queriedPreconditions(query) : body["preconditions"],
  );
  const propagationPolicy = policyOf(policy, orphanDependents);
  const { kind: _kind, apiVersion: _version, ...given } = body;
  return {
    sent: {
      kind: "DeleteOptions",
      apiVersion: "meta.k8s.io/v1",
      ...(dryRun.length === 0 ? {} : { dryRun }),
      ...(grace === undefined ? {} : { gracePeriodSeconds: grace }),
      ...(typeof policy === "string" && policy !== "" ? { propagationPolicy: policy } : {}),
      ...given,
    },
    isDryRun: isDryRun(dryRun, "DeleteOptions"),
    isCascadeRequested: orphanDependents === false,
    ...(grace === undefined ? {} : { gracePeriodSeconds: grace }),
    ...(propagationPolicy === undefined ? {} : { propagationPolicy }),
    ...(uid === undefined ? {} : { uid }),
    ...(resourceVersion === undefined ? {} : { resourceVersion }),
  };
}

function queriedPreconditions({ uid, resourceVersion }: NonNullable<PipelineRequest["query"]>): JsonObject {
  return { ...(uid ? { uid } : {}), ...(resourceVersion ? { resourceVersion } : {}) };
}

/** A malformed precondition is an error. Ignoring it would delete the object. */
function preconditionsOf(preconditions: unknown): Pick<DeleteOptions, "uid" | "resourceVersion"> {
  if (preconditions === undefined || preconditions === null) return {};
  if (!isJsonObject(preconditions)) throw badRequest("preconditions must be an object");
  const read = (name: "uid" | "resourceVersion"): object => {
    const value = preconditions[name];
    if (value === undefined || value === null) return {};
    if (typeof value !== "string") throw badRequest(`preconditions.${name} must be a string`);
    return { [name]: value };
  };
  return { ...read("uid"), ...read("resourceVersion") };
}

function gracePeriod(value: unknown): number | undefined {
  if (value === undefined || value === null || value === "") return undefined;
  const seconds = typeof value === "string" ? Number(value) : value;
  if (typeof seconds !== "number" || !Number.isInteger(seconds)) throw badRequest("gracePeriodSeconds must be an integer");
  if (seconds < 0) {
    // kube-apiserver treats -1 as 1.
    return seconds === -1 ? 1 : rejectGracePeriod(seconds);
  }
  return seconds;
}

function wrongGracePeriod(value: unknown): Error {
  const type = Array.isArray(value) ? "array" : typeof value === "boolean" ? "bool" : typeof value;
  return badRequest(`json: cannot unmarshal ${type} into Go struct field DeleteOptions.gracePeriodSeconds of type int64`);
}

function rejectGracePeriod(seconds: number): never {
  throw invalid({ group: "meta.k8s.io", kind: "DeleteOptions" }, "", [
    {
      reason: "FieldValueInvalid",
      field: "gracePeriodSeconds",
      message: `Invalid value: ${seconds}: must be greater than or equal to 0`,
    },
  ]);
}

function policyOf(policy: unknown, orphanDependents: boolean | undefined): DeleteOptions["propagationPolicy"] {
  if (policy === "Orphan" || policy === "Background" || policy === "Foreground") return policy;
  if (policy !== undefined && policy !== "" && policy !== null) {
    throw invalidOptions("DeleteOptions", {
      reason: "FieldValueNotSupported",
      field: "propagationPolicy",
      message: `Unsupported value: ${JSON.stringify(policy)}: supported values: "Foreground", "Background", "Orphan", "nil"`,
    });
  }
  if (orphanDependents === undefined) return undefined;
  return orphanDependents ? "Orphan" : "Background";
}
