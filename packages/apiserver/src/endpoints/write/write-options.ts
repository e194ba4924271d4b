import { quoteText, type StatusCause } from "@keelson/api-machinery/validation";
import { invalidOptions, type OptionsKind } from "../errors.ts";
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
  const dryRun = queriedDryRun(request);
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
    return { reason: "FieldValueTooLong", field, message: `Too long: may not be more than ${maxManagerLength} bytes` };
  }
  const position = [...manager].findIndex(isUnprintable);
  if (position < 0) return undefined;
  const code = ([...manager][position] ?? "").codePointAt(0) ?? 0;
  const character = `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
  return {
    reason: "FieldValueInvalid",
    field,
    message: `Invalid value: ${quoteText(manager)}: invalid character ${character} (at position ${position})`,
  };
}

/** The values of the query parameter `dryRun`. */
export function queriedDryRun({ query = {}, repeatedDryRun }: PipelineRequest): readonly string[] {
  return repeatedDryRun ?? (query["dryRun"] === undefined ? [] : [query["dryRun"]]);
}

/** Why the values of `dryRun` are not valid. */
export function dryRunProblem(values: readonly unknown[]): StatusCause | undefined {
  if (values.every((value) => value === "All")) return undefined;
  return {
    reason: "FieldValueNotSupported",
    field: "dryRun",
    message: `Unsupported value: ${JSON.stringify(values)}: supported values: "All"`,
  };
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
