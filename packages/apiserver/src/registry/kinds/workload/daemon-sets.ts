import { jsonEquals, type KubernetesObject } from "@keelson/api-machinery";
import type { DaemonSetObject } from "@keelson/api-machinery/kinds";
import { invalidCause, notSupportedCause, requiredCause, type StatusCause } from "@keelson/api-machinery/validation";
import { age } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource, column } from "../../builtin/builtin-resource.ts";
import { templateWarnings } from "../pod-template-warnings.ts";
import * as check from "../../field-checks.ts";
import { labelsText } from "../network/services.ts";
import { ensureMap } from "../../object-fields.ts";
import type { DraftObject, ReceivedObject } from "../../received.ts";
import { isZero } from "./deployments.ts";
import * as workload from "./workload.ts";

/** apps/v1 DaemonSets. */
export const daemonSets = builtinResource<DaemonSetObject>({
  group: "apps",
  version: "v1",
  kind: "DaemonSet",
  plural: "daemonsets",
  shortNames: ["ds"],
  categories: ["all"],
  scope: "Namespaced",
  hasStatus: true,
  columns: [
    column("Desired", "The number of nodes that should run a Pod.", { type: "integer" }),
    column("Current", "The number of nodes that run at least one Pod.", { type: "integer" }),
    column("Ready", "The number of nodes with a ready Pod.", { type: "integer" }),
    column("Up-to-date", "The number of nodes that run an updated Pod.", { type: "integer" }),
    column("Available", "The number of nodes with an available Pod.", { type: "integer" }),
    column("Node Selector", "The selector of its nodes."),
    ageColumn,
    ...workload.templateColumns,
    workload.selectorColumn,
  ],
  cells: (object, now) => [
    workload.countAt(object, "status", "desiredNumberScheduled"),
    workload.countAt(object, "status", "currentNumberScheduled"),
    workload.countAt(object, "status", "numberReady"),
    workload.countAt(object, "status", "updatedNumberScheduled"),
    workload.countAt(object, "status", "numberAvailable"),
    labelsText(object.spec?.template?.spec?.nodeSelector ?? {}),
    age(object.metadata.creationTimestamp, now),
    ...workload.templateCells(object),
    workload.selectorCell(object.spec?.selector),
  ],
  strategy: {
    warnings: templateWarnings(["spec", "template"], false),
    default: defaultDaemonSet,
    prepareForCreate: (object) =>
      workload.emptyStatus(object, {
        currentNumberScheduled: 0,
        desiredNumberScheduled: 0,
        numberMisscheduled: 0,
        numberReady: 0,
      }),
    prepareForUpdate: countTemplates,
    *validate(object) {
      yield* workload.templateCauses(object, { kind: "daemonset", podOwner: "DaemonSet" });
      yield* check.atLeast("spec.minReadySeconds", object.spec?.minReadySeconds);
      yield* strategyCauses(object);
      yield* check.atLeast("spec.revisionHistoryLimit", object.spec?.revisionHistoryLimit);
    },
    validateUpdate: (object, old) => workload.immutableSpecCauses(object, old, ["selector"]),
  },
});

/** The template generation from 1, a field of removed versions that clients still read from an annotation. */
const templateGeneration = "deprecated.daemonset.template.generation";

function setTemplateGeneration({ metadata }: KubernetesObject, generation: number): void {
  metadata.annotations = { ...metadata.annotations, [templateGeneration]: String(generation) };
}

function countTemplates(object: DraftObject<DaemonSetObject>, old: ReceivedObject<DaemonSetObject>): void {
  const before = Number(old.metadata.annotations?.[templateGeneration] ?? 1);
  const isSame = jsonEquals(object.spec?.template, old.spec?.template);
  setTemplateGeneration(object, isSame ? before : before + 1);
}

function defaultDaemonSet(object: DraftObject<DaemonSetObject>): void {
  if (object.metadata.annotations?.[templateGeneration] === undefined) setTemplateGeneration(object, 1);
  workload.defaultWorkload(object, false);
  const spec = object.spec;
  if (spec === undefined) return;
  spec.revisionHistoryLimit ??= 10;
  const strategy = ensureMap(spec, "updateStrategy");
  strategy.type ??= "RollingUpdate";
  if (strategy.type !== "RollingUpdate") return;
  const rolling = ensureMap(strategy, "rollingUpdate");
  rolling.maxUnavailable ??= 1;
  rolling.maxSurge ??= 0;
}

function strategyCauses(object: ReceivedObject<DaemonSetObject>): StatusCause[] {
  const strategy = object.spec?.updateStrategy;
  const type = strategy?.type ?? "";
  const rolling = strategy?.rollingUpdate;
  const path = "spec.updateStrategy.rollingUpdate";
  if (type === "OnDelete") return [];
  if (type !== "RollingUpdate") {
    const shown = rolling === undefined ? null : { MaxUnavailable: rolling.maxUnavailable, MaxSurge: rolling.maxSurge };
    // kube-apiserver prints its internal type.
    return [notSupportedCause("spec.updateStrategy", { Type: type, RollingUpdate: shown }, ["RollingUpdate", "OnDelete"])];
  }
  if (rolling === undefined) return [requiredCause(path)];
  const surge = rolling.maxSurge;
  const unavailable = rolling.maxUnavailable;
  const causes = [
    ...check.countOrPercent(`${path}.maxUnavailable`, unavailable),
    ...check.countOrPercent(`${path}.maxSurge`, surge),
  ];
  for (const [field, value] of [
    ["maxUnavailable", unavailable],
    ["maxSurge", surge],
  ] as const) {
    if ((check.percentOf(value) ?? 0) > 100) {
      causes.push(invalidCause(`${path}.${field}`, value, "must not be greater than 100%"));
    }
  }
  if (!isZero(surge) && !isZero(unavailable)) {
    causes.push(invalidCause(`${path}.maxSurge`, surge, "may not be set when maxUnavailable is non-zero"));
  } else if (isZero(surge) && isZero(unavailable)) {
    causes.push(requiredCause(`${path}.maxUnavailable`, "cannot be 0 when maxSurge is 0"));
  }
  return causes;
}
