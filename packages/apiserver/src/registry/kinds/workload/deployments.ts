import { jsonEquals } from "@keelson/api-machinery";
import type { DeploymentObject } from "@keelson/api-machinery/kinds";
import {
  forbiddenCause,
  invalidCause,
  notSupportedCause,
  requiredCause,
  type StatusCause,
} from "@keelson/api-machinery/validation";
import { age } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource, column } from "../../builtin/builtin-resource.ts";
import { templateWarnings } from "../pod-template-warnings.ts";
import * as check from "../../field-checks.ts";
import { ensureMap } from "../../object-fields.ts";
import type { DraftObject, Received, ReceivedObject } from "../../received.ts";
import * as workload from "./workload.ts";
import type { Causes } from "../../causes.ts";

/** apps/v1 Deployments. */
export const deployments = builtinResource<DeploymentObject>({
  group: "apps",
  version: "v1",
  kind: "Deployment",
  plural: "deployments",
  shortNames: ["deploy"],
  categories: ["all"],
  scope: "Namespaced",
  hasStatus: true,
  scale: workload.replicaScale,
  columns: [
    column("Ready", "Ready Pods, of the desired ones."),
    column("Up-to-date", "Updated Pods."),
    column("Available", "Available Pods."),
    ageColumn,
    ...workload.templateColumns,
    workload.selectorColumn,
  ],
  cells: (object, now) => [
    `${workload.countAt(object, "status", "readyReplicas")}/${workload.countAt(object, "spec", "replicas")}`,
    workload.countAt(object, "status", "updatedReplicas"),
    workload.countAt(object, "status", "availableReplicas"),
    age(object.metadata.creationTimestamp, now),
    ...workload.templateCells(object),
    workload.selectorCell(object.spec?.selector),
  ],
  strategy: {
    warnings: templateWarnings(["spec", "template"], true),
    // Clients of removed versions kept parts of the spec in annotations.
    raisesGeneration: (object, old) => !jsonEquals(object.metadata.annotations ?? {}, old.metadata.annotations ?? {}),
    default: defaultDeployment,
    prepareForCreate: (object) => workload.emptyStatus(object),
    *validate(object) {
      yield* check.atLeast("spec.replicas", object.spec?.replicas);
      yield* workload.templateCauses(object, { kind: "deployment", podOwner: "ReplicaSet" });
      yield* strategyCauses(object);
      yield* check.atLeast("spec.minReadySeconds", object.spec?.minReadySeconds);
      yield* check.atLeast("spec.revisionHistoryLimit", object.spec?.revisionHistoryLimit);
      yield* deadlineCauses(object);
      yield* countCauses(object);
    },
    status: { validate: countCauses },
    validateUpdate: (object, old) => workload.immutableSpecCauses(object, old, ["selector"]),
  },
});

function defaultDeployment(object: DraftObject<DeploymentObject>): void {
  workload.defaultWorkload(object);
  const spec = object.spec;
  if (spec === undefined) return;
  spec.revisionHistoryLimit ??= 10;
  spec.progressDeadlineSeconds ??= 600;
  const strategy = ensureMap(spec, "strategy");
  strategy.type ??= "RollingUpdate";
  if (strategy.type !== "RollingUpdate") return;
  const rolling = ensureMap(strategy, "rollingUpdate");
  rolling.maxUnavailable ??= "25%";
  rolling.maxSurge ??= "25%";
}

function* countCauses(object: ReceivedObject<DeploymentObject>): Causes {
  const counters = [
    "replicas",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "unavailableReplicas",
    "collisionCount",
  ];
  yield* workload.statusCauses(
    object,
    [...counters, "observedGeneration"],
    [
      ["updatedReplicas", "replicas"],
      ["readyReplicas", "replicas"],
      ["availableReplicas", "replicas"],
      ["availableReplicas", "readyReplicas"],
    ],
  );
}

function strategyCauses(object: ReceivedObject<DeploymentObject>): StatusCause[] {
  const strategy = object.spec?.strategy;
  const type = strategy?.type ?? "";
  const rolling = strategy?.rollingUpdate;
  const path = "spec.strategy.rollingUpdate";
  if (type === "Recreate") {
    const detail = "may not be specified when strategy `type` is 'Recreate'";
    return rolling === undefined ? [] : [forbiddenCause(path, detail)];
  }
  if (type !== "RollingUpdate") {
    const shown = rolling === undefined ? null : { MaxUnavailable: rolling.maxUnavailable, MaxSurge: rolling.maxSurge };
    // kube-apiserver prints its internal type.
    return [notSupportedCause("spec.strategy", { Type: type, RollingUpdate: shown }, ["Recreate", "RollingUpdate"])];
  }
  if (rolling === undefined) return [requiredCause(path, "this should be defaulted and never be nil")];
  return rollingCauses(rolling, path);
}

/** Validates maxSurge and maxUnavailable. */
function rollingCauses(
  rolling: Received<NonNullable<DeploymentObject["spec"]["strategy"]>["rollingUpdate"]>,
  path: string,
): StatusCause[] {
  const surge = rolling?.maxSurge;
  const unavailable = rolling?.maxUnavailable;
  const causes = [
    ...check.countOrPercent(`${path}.maxUnavailable`, unavailable),
    ...check.countOrPercent(`${path}.maxSurge`, surge),
  ];
  if (isZero(surge) && isZero(unavailable)) {
    causes.push(invalidCause(`${path}.maxUnavailable`, unavailable ?? 0, "may not be 0 when `maxSurge` is 0"));
  }
  const percent = check.percentOf(unavailable);
  if (percent !== undefined && percent > 100) {
    causes.push(invalidCause(`${path}.maxUnavailable`, unavailable, "must not be greater than 100%"));
  }
  return causes;
}

/** Whether kube-apiserver reads a count or percentage as 0, which includes strings that are not percentages. */
export function isZero(value: unknown): boolean {
  return value === undefined || value === 0 || (typeof value === "string" && (check.percentOf(value) ?? 0) === 0);
}

function deadlineCauses(object: ReceivedObject<DeploymentObject>): StatusCause[] {
  const deadline = object.spec?.progressDeadlineSeconds;
  const causes = check.atLeast("spec.progressDeadlineSeconds", deadline);
  if (typeof deadline === "number" && deadline <= workload.countAt(object, "spec", "minReadySeconds")) {
    causes.push(invalidCause("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"));
  }
  return causes;
}
