import type { CronJobObject } from "@keelson/api-machinery/kinds";
import { invalidCause, notSupportedCause, requiredCause } from "@keelson/api-machinery/validation";
import { age } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource, column } from "../../builtin/builtin-resource.ts";
import { templateWarnings } from "../pod-template-warnings.ts";
import * as check from "../../field-checks.ts";
import { setField, valueAt } from "../../object-fields.ts";
import type { DraftObject, ReceivedObject } from "../../received.ts";
import { cronScheduleFault } from "./cron-schedule.ts";
import { defaultPodTemplate } from "../pod/defaults.ts";
import { defaultFailurePolicy } from "./jobs.ts";
import { jobSpecCauses } from "./job-spec-validation.ts";
import { selectorColumn, templateColumns } from "./workload.ts";
import type { Causes } from "../../causes.ts";

/** batch/v1 CronJobs. */
export const cronJobs = builtinResource<CronJobObject>({
  group: "batch",
  version: "v1",
  kind: "CronJob",
  plural: "cronjobs",
  shortNames: ["cj"],
  categories: ["all"],
  scope: "Namespaced",
  hasStatus: true,
  columns: [
    column("Schedule", "When Jobs start."),
    column("Timezone", "The time zone of the schedule."),
    column("Suspend", "Whether the schedule is suspended.", { type: "boolean" }),
    column("Active", "The number of running Jobs.", { type: "integer" }),
    column("Last Schedule", "How long ago the last Job was scheduled."),
    ageColumn,
    ...templateColumns,
    selectorColumn,
  ],
  cells: (object, now) => {
    const containers = object.spec?.jobTemplate?.spec?.template?.spec?.containers ?? [];
    const last = object.status?.lastScheduleTime ?? "";
    return [
      object.spec?.schedule ?? "",
      object.spec?.timeZone || "<none>",
      object.spec?.suspend === true ? "True" : "False",
      (object.status?.active ?? []).length,
      last === "" ? "<none>" : age(last, now),
      age(object.metadata.creationTimestamp, now),
      containers.map((container) => container.name ?? "").join(","),
      containers.map((container) => container.image ?? "").join(","),
      "<none>",
    ];
  },
  strategy: {
    warnings: templateWarnings(["spec", "jobTemplate", "spec", "template"], true),
    default: defaultCronJob,
    prepareForCreate: (object) => setField(object, "status", {}),
    validate: cronJobCauses,
  },
});

function defaultCronJob(object: DraftObject<CronJobObject>): void {
  const spec = object.spec;
  if (spec === undefined) return;
  spec.concurrencyPolicy ??= "Allow";
  spec.suspend ??= false;
  spec.successfulJobsHistoryLimit ??= 3;
  spec.failedJobsHistoryLimit ??= 1;
  // Only the defaults of parts: the Job's own are set when it is created.
  defaultFailurePolicy(spec.jobTemplate?.spec);
  defaultPodTemplate(spec.jobTemplate?.spec?.template);
}

function* cronJobCauses(object: ReceivedObject<CronJobObject>): Causes {
  const spec = object.spec;
  const schedule = spec?.schedule ?? "";

  if (schedule === "") yield requiredCause("spec.schedule");
  else {
    const fault = cronScheduleFault(schedule);
    if (fault !== undefined) yield invalidCause("spec.schedule", schedule, fault);
    if (schedule.includes("TZ")) {
      const detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
      yield invalidCause("spec.schedule", schedule, detail);
    }
  }
  const zone = spec?.timeZone;
  if (zone === "") yield invalidCause("spec.timeZone", zone, "timeZone must be nil or non-empty string");
  else if (typeof zone === "string" && !isTimeZone(zone)) {
    yield invalidCause("spec.timeZone", zone, `unknown time zone ${zone}`);
  }
  yield* check.oneOf("spec.concurrencyPolicy", spec?.concurrencyPolicy, ["Allow", "Forbid", "Replace"]);
  for (const field of ["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"]) {
    yield* check.atLeast(`spec.${field}`, valueAt(spec, field));
  }
  if ((object.metadata.name ?? "").length > 52) {
    yield invalidCause("metadata.name", object.metadata.name, "must be no more than 52 characters");
  }
  if (spec?.jobTemplate !== undefined) {
    yield* jobSpecCauses(spec?.jobTemplate?.spec, "spec.jobTemplate.spec");
    const selector = valueAt(spec, "jobTemplate", "spec", "selector");
    if (selector !== undefined) {
      const shown = check.shownSelector(selector);
      yield invalidCause("spec.jobTemplate.spec.selector", shown, "`selector` will be auto-generated");
    }
    if (spec?.jobTemplate?.spec?.manualSelector === true) {
      yield notSupportedCause("spec.jobTemplate.spec.manualSelector", true, ["nil", "false"]);
    }
  }
}

function isTimeZone(zone: string): boolean {
  try {
    new Intl.DateTimeFormat("en", { timeZone: zone });
    return zone.toLowerCase() !== "local";
  } catch {
    return false;
  }
}
