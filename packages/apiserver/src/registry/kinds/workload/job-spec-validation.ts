import type { JobObject } from "@keelson/api-machinery/kinds";
import {
  invalidCause,
  notSupportedCause,
  requiredCause,
  type StatusCause,
  tooLongCause,
} from "@keelson/api-machinery/validation";
import * as check from "../../field-checks.ts";
import { valueAt } from "../../object-fields.ts";
import type { Received } from "../../received.ts";
import { podTemplateCauses } from "../pod/validation/spec-validation.ts";
import { failurePolicyCauses } from "./failure-policy-validation.ts";
import { successPolicyCauses } from "./success-policy-validation.ts";
import type { Causes } from "../../causes.ts";

type JobSpec = Received<JobObject["spec"]> | undefined;

const maxManagedByLength = 63;
const maxIndexedParallelism = 100_000;
const maxFailedIndexes = 100_000;
/** Above this, the limits of Jobs with a backoff limit per index are lower. */
const manyCompletions = 100_000;
const maxParallelismOfMany = 10_000;
const maxFailedIndexesOfMany = 10_000;

/** Validates a JobSpec at `path`. In a CronJob, the selector is generated later. */
export function* jobSpecCauses(spec: JobSpec, path: string): Causes {
  for (const field of [
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
  ]) {
    yield* check.atLeast(`${path}.${field}`, valueAt(spec, field));
  }
  if (spec?.maxFailedIndexes !== undefined && spec.backoffLimitPerIndex === undefined) {
    yield requiredCause(`${path}.backoffLimitPerIndex`, "when maxFailedIndexes is specified");
  }
  yield* managerCauses(spec?.managedBy, `${path}.managedBy`);
  yield* completionCauses(spec, path);
  yield* failurePolicyCauses(spec, `${path}.podFailurePolicy`);
  yield* successPolicyCauses(spec, `${path}.successPolicy`);
  const replacement = spec?.podReplacementPolicy;
  const replacements = spec?.podFailurePolicy === undefined ? ["Failed", "TerminatingOrFailed"] : ["Failed"];
  yield* check.oneOf(`${path}.podReplacementPolicy`, replacement, replacements);
  yield* podTemplateCauses(spec?.template, `${path}.template`);
  yield* restartCauses(spec, `${path}.template.spec.restartPolicy`);
}

function restartCauses(spec: JobSpec, field: string): StatusCause[] {
  const restart = spec?.template?.spec?.restartPolicy ?? "";
  if (restart === "Always" || restart === "") return [requiredCause(field, 'valid values: "OnFailure", "Never"')];
  if (restart !== "OnFailure" && restart !== "Never") return [notSupportedCause(field, restart, ["OnFailure", "Never"])];
  if (spec?.podFailurePolicy === undefined || restart === "Never") return [];
  return [invalidCause(field, restart, 'only "Never" is supported when podFailurePolicy is specified')];
}

/** Validates the name of another controller that manages the Job, a domain and a path. */
function managerCauses(name: unknown, field: string): StatusCause[] {
  if (typeof name !== "string") return [];
  return [
    ...check.domainPrefixedPath(field, name),
    ...(name.length > maxManagedByLength ? [tooLongCause(field, maxManagedByLength)] : []),
  ];
}

function completionCauses(spec: JobSpec, path: string): StatusCause[] {
  const mode = spec?.completionMode;
  const causes = check.oneOf(`${path}.completionMode`, mode, ["NonIndexed", "Indexed"]);
  if (mode === "Indexed") return [...causes, ...indexedCauses(spec, path)];
  if (mode !== undefined && mode !== "NonIndexed") return causes;
  for (const field of ["backoffLimitPerIndex", "maxFailedIndexes"]) {
    const value = valueAt(spec, field);
    if (value !== undefined) causes.push(invalidCause(`${path}.${field}`, value, "requires indexed completion mode"));
  }
  return causes;
}

function indexedCauses(spec: JobSpec, path: string): StatusCause[] {
  const causes: StatusCause[] = [];
  const { completions, parallelism = 0, maxFailedIndexes: failed } = spec ?? {};
  if (completions === undefined) causes.push(requiredCause(`${path}.completions`, "when completion mode is Indexed"));
  const check = (field: string, value: number, max: number, detail: string): void => {
    if (value > max) causes.push(invalidCause(`${path}.${field}`, value, `must be less than or equal to ${detail}`));
  };
  const indexed = `${maxIndexedParallelism} when completion mode is Indexed`;
  check("parallelism", parallelism, maxIndexedParallelism, indexed);
  if (completions !== undefined && failed !== undefined) check("maxFailedIndexes", failed, completions, "completions");
  if (failed !== undefined) check("maxFailedIndexes", failed, maxFailedIndexes, String(maxFailedIndexes));
  if (completions === undefined || completions <= manyCompletions || spec?.backoffLimitPerIndex === undefined) return causes;
  if (failed === undefined) {
    causes.push(requiredCause(`${path}.maxFailedIndexes`, `must be specified when completions is above ${manyCompletions}`));
  }
  const many = `when completions are above ${manyCompletions} and used with backoff limit per index`;
  check("parallelism", parallelism, maxParallelismOfMany, `${maxParallelismOfMany} ${many}`);
  if (failed !== undefined) check("maxFailedIndexes", failed, maxFailedIndexesOfMany, `${maxFailedIndexesOfMany} ${many}`);
  return causes;
}
