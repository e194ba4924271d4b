import { draft, isJsonObject, jsonEquals } from "@keelson/api-machinery";
import type { JobObject, PodTemplate } from "@keelson/api-machinery/kinds";
import { selectorFromObject } from "@keelson/api-machinery/selectors";
import { forbiddenCause, invalidCause, requiredCause, type StatusCause } from "@keelson/api-machinery/validation";
import { age, humanDuration } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource, column } from "../../builtin/builtin-resource.ts";
import { templateWarnings } from "../pod-template-warnings.ts";
import { internalValue } from "../../builtin/internal-value.ts";
import * as check from "../../field-checks.ts";
import { ensureMap, setField, valueAt } from "../../object-fields.ts";
import type { Draft, DraftObject, ReceivedObject } from "../../received.ts";
import { defaultPodTemplate } from "../pod/defaults.ts";
import { jobSpecCauses } from "./job-spec-validation.ts";
import * as workload from "./workload.ts";
import { type Causes, countCauses } from "../../causes.ts";

/** batch/v1 Jobs. */
export const jobs = builtinResource<JobObject>({
  group: "batch",
  version: "v1",
  kind: "Job",
  plural: "jobs",
  categories: ["all"],
  scope: "Namespaced",
  hasStatus: true,
  columns: [
    column("Status", "Running, Suspended, Complete, Failed ..."),
    column("Completions", "Succeeded Pods, of the required ones."),
    column("Duration", "How long the Job has run."),
    ageColumn,
    ...workload.templateColumns,
    workload.selectorColumn,
  ],
  cells: (job, now) => [
    statusOf(job),
    completionsOf(job),
    durationOf(job, now),
    age(job.metadata.creationTimestamp, now),
    ...workload.templateCells(job),
    workload.selectorCell(job.spec?.selector),
  ],
  selectableFields: { "status.successful": (job) => String(workload.countAt(job, "status", "succeeded")) },
  strategy: {
    warnings: templateWarnings(["spec", "template"], true),
    defaultPropagation: "Orphan",
    propagationWarning:
      "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set " +
      "propagationPolicy=Orphan to suppress this warning",
    default: defaultJob,
    prepareForCreate: (job) => {
      setField(job, "status", {});
      generateSelector(job);
    },
    validate: (job) => jobCauses(job),
    validateUpdate: updateCauses,
  },
});

/** Labels of a Job's Pods with the Job's name and uid, under current and legacy keys. */
const nameLabels = ["batch.kubernetes.io/job-name", "job-name"];
const uidLabels = ["batch.kubernetes.io/controller-uid", "controller-uid"];

/** Sets the default of the status of Pod conditions in a failure policy, including in the template of a CronJob. */
export function defaultFailurePolicy(spec: Draft<JobObject["spec"]> | undefined): void {
  for (const rule of spec?.podFailurePolicy?.rules ?? []) {
    for (const pattern of rule.onPodConditions ?? []) pattern.status ||= "True";
  }
}

function defaultJob(job: DraftObject<JobObject>): void {
  const spec = job.spec;
  if (spec === undefined) return;
  if (spec.completions === undefined && spec.parallelism === undefined) spec.completions = 1;
  spec.parallelism ??= 1;
  spec.completionMode ??= "NonIndexed";
  // With a limit per index, the total is unlimited.
  spec.backoffLimit ??= spec.backoffLimitPerIndex === undefined ? 6 : 2_147_483_647;
  spec.suspend ??= false;
  spec.manualSelector ??= false;
  spec.podReplacementPolicy ??= spec.podFailurePolicy === undefined ? "TerminatingOrFailed" : "Failed";
  defaultFailurePolicy(spec);
  defaultPodTemplate(spec.template);
  const labels = spec.template?.metadata?.labels;
  if (isJsonObject(labels) && Object.keys(job.metadata.labels ?? {}).length === 0) {
    setField(job.metadata, "labels", structuredClone(labels));
  }
}

/** Labels the Pods of a Job with its name and uid and selects them by uid, unless the Job has a manual selector. */
function generateSelector(job: DraftObject<JobObject>): void {
  const spec = job.spec;
  const template = spec?.template;
  if (spec === undefined || template === undefined) return;
  const { name = "", uid = "" } = job.metadata;
  if (spec.manualSelector === true) return;
  const labels = ensureMap(ensureMap(template, "metadata"), "labels");
  // A Job without labels gets those of its Pods, including these.
  const isShared = jsonEquals(job.metadata.labels ?? {}, labels);
  for (const label of nameLabels) labels[label] ??= name;
  for (const label of uidLabels) labels[label] ??= uid;
  ensureMap(ensureMap(spec, "selector"), "matchLabels")["batch.kubernetes.io/controller-uid"] ??= uid;
  if (isShared) setField(job.metadata, "labels", structuredClone(labels));
}

function* jobCauses(job: ReceivedObject<JobObject>): Causes {
  const spec = job.spec;
  yield* jobSpecCauses(spec, "spec");
  const selector = spec?.selector;
  const labels = (spec?.template?.metadata?.labels ?? {}) as Readonly<Record<string, string>>;
  const { uid = "", name = "" } = job.metadata;
  if (spec?.template === undefined) return;
  if (!isJsonObject(selector)) {
    // In Go an absent selector matches nothing.
    yield requiredCause("spec.selector");
    yield workload.mismatchCause(labels);
    return;
  }
  const faults = yield* countCauses(check.labelSelector("spec.selector", selector));
  if (faults === 0 && !selectorFromObject(selector).matches(labels)) yield workload.mismatchCause(labels);
  if (spec?.manualSelector === true) return;
  // What a client wrote in place of what is generated, or alongside it: the selector has to select by these labels alone.
  const generated = Object.fromEntries([
    ...uidLabels.map((label) => [label, uid]),
    ...nameLabels.map((label) => [label, name]),
  ]);
  const isByUid = uidLabels.some((label) => valueAt(selector, "matchLabels", label) === uid);
  if (!isByUid || (faults === 0 && !selectorFromObject(selector).matches(generated))) {
    yield invalidCause("spec.selector", selector, "`selector` not auto-generated");
  }
  for (const [names, wanted] of [
    [uidLabels, uid],
    [nameLabels, name],
  ] as const) {
    for (const label of names) {
      yield;
      const found = Object.hasOwn(labels, label) ? labels[label] : undefined;
      const path = `spec.template.metadata.labels[${label}]`;
      if (found !== undefined && found !== wanted) yield invalidCause(path, found, `must be '${wanted}'`);
    }
  }
}

/** Template fields that a suspended Job may change until it has started. */
const schedulingFields = ["nodeSelector", "affinity", "tolerations", "schedulingGates"] as const;

function updateCauses(job: ReceivedObject<JobObject>, old: ReceivedObject<JobObject>): StatusCause[] {
  const causes = workload.immutableSpecCauses(job, old, [
    "completionMode",
    "selector",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
    "manualSelector",
  ]);
  causes.push(...completionsCauses(job, old));
  const isOpen = old.spec?.suspend === true && old.status?.startTime === undefined;
  if (!jsonEquals(fixedTemplate(job, isOpen), fixedTemplate(old, isOpen))) {
    causes.push(invalidCause("spec.template", internalValue("core.PodTemplateSpec", job.spec?.template), "field is immutable"));
  }
  if (causes.length === 0 && old.spec?.maxFailedIndexes !== job.spec?.maxFailedIndexes) {
    if (job.spec?.backoffLimitPerIndex === undefined) {
      causes.push(forbiddenCause("spec.maxFailedIndexes", "requires backoffLimitPerIndex"));
    }
  }
  return causes;
}

/** The completions of an Indexed Job may change if they stay equal to its parallelism. */
function completionsCauses(job: ReceivedObject<JobObject>, old: ReceivedObject<JobObject>): StatusCause[] {
  const { completions, parallelism, completionMode } = job.spec ?? {};
  if (completionMode !== "Indexed") return workload.immutableSpecCauses(job, old, ["completions"]);
  if (completions === undefined || completions === old.spec?.completions || completions === parallelism) return [];
  return [invalidCause("spec.completions", completions, "can only be modified in tandem with spec.parallelism")];
}

function fixedTemplate(job: ReceivedObject<JobObject>, isOpen: boolean): object {
  const template: Draft<PodTemplate> = draft(job.spec?.template ?? {});
  if (!isOpen) return template;
  const spec = template.spec;
  if (spec !== undefined) for (const field of schedulingFields) delete spec[field];
  const metadata = template.metadata;
  if (metadata !== undefined) {
    delete metadata.labels;
    delete metadata.annotations;
  }
  return template;
}

function hasCondition(job: ReceivedObject<JobObject>, type: string): boolean {
  return (job.status?.conditions ?? []).some((condition) => (condition.type ?? "") === type && condition.status === "True");
}

function statusOf(job: ReceivedObject<JobObject>): string {
  if (hasCondition(job, "Complete")) return "Complete";
  if (hasCondition(job, "Failed")) return "Failed";
  if (job.metadata.deletionTimestamp !== undefined) return "Terminating";
  if (hasCondition(job, "Suspended")) return "Suspended";
  if (hasCondition(job, "FailureTarget")) return "FailureTarget";
  if (hasCondition(job, "SuccessCriteriaMet")) return "SuccessCriteriaMet";
  return "Running";
}

function completionsOf(job: ReceivedObject<JobObject>): string {
  const succeeded = workload.countAt(job, "status", "succeeded");
  const completions = job.spec?.completions;
  if (typeof completions === "number") return `${succeeded}/${completions}`;
  const parallelism = workload.countAt(job, "spec", "parallelism");
  return parallelism > 1 ? `${succeeded}/1 of ${parallelism}` : `${succeeded}/1`;
}

function durationOf(job: ReceivedObject<JobObject>, now: number): string {
  const started = Date.parse(job.status?.startTime ?? "");
  if (Number.isNaN(started)) return "";
  const ended = Date.parse(job.status?.completionTime ?? "");
  return humanDuration((Number.isNaN(ended) ? now : ended) - started);
}
