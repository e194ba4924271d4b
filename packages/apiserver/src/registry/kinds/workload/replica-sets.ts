import type { KubernetesObject } from "@keelson/api-machinery";
import { requiredCause, type StatusCause } from "@keelson/api-machinery/validation";
import { age } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource, column } from "../../builtin/builtin-resource.ts";
import * as check from "../../field-checks.ts";
import { mapAt, objectAt, setField, textAt, valueAt } from "../../object-fields.ts";
import { podTemplateCauses } from "../pod/spec-validation.ts";
import * as workload from "./workload.ts";

const columns = [
  column("Desired", "The desired number of Pods.", { type: "integer" }),
  column("Current", "The current number of Pods.", { type: "integer" }),
  column("Ready", "The number of ready Pods.", { type: "integer" }),
  ageColumn,
  ...workload.templateColumns,
  workload.selectorColumn,
];

function cells(object: workload.Read, now: number): readonly (string | number)[] {
  return [
    workload.countAt(object, "spec", "replicas"),
    workload.countAt(object, "status", "replicas"),
    workload.countAt(object, "status", "readyReplicas"),
    age(object.metadata.creationTimestamp, now),
    ...workload.templateCells(object),
    workload.selectorCell(valueAt(object, "spec", "selector")),
  ];
}

const selectableFields = {
  "status.replicas": (object: workload.Read) => String(workload.countAt(object, "status", "replicas")),
};

function countCauses(object: workload.Read): StatusCause[] {
  return workload.statusCauses(
    object,
    ["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration"],
    [
      ["fullyLabeledReplicas", "replicas"],
      ["readyReplicas", "replicas"],
      ["availableReplicas", "replicas"],
      ["availableReplicas", "readyReplicas"],
    ],
  );
}

/** apps/v1 ReplicaSets. */
export const replicaSets = builtinResource({
  group: "apps",
  version: "v1",
  kind: "ReplicaSet",
  plural: "replicasets",
  shortNames: ["rs"],
  categories: ["all"],
  scope: "Namespaced",
  hasStatus: true,
  scale: workload.replicaScale,
  columns,
  cells,
  selectableFields,
  strategy: {
    warnings: workload.templateWarnings,
    default: (object) => workload.defaultWorkload(object),
    prepareForCreate: (object) => workload.emptyStatus(object, { replicas: 0 }),
    validate: (object) => [...workload.workloadCauses(object), ...countCauses(object)],
    status: { validate: countCauses },
    validateUpdate: (object, old) => workload.immutableSpecCauses(object, old, ["selector"]),
  },
});

/** v1 ReplicationControllers, the predecessors of ReplicaSets, with a plain map as selector. */
export const replicationControllers = builtinResource({
  group: "",
  version: "v1",
  kind: "ReplicationController",
  plural: "replicationcontrollers",
  shortNames: ["rc"],
  categories: ["all"],
  scope: "Namespaced",
  hasStatus: true,
  scale: workload.replicaScale,
  columns,
  cells,
  selectableFields,
  strategy: {
    default: defaultController,
    prepareForCreate: (object) => workload.emptyStatus(object, { replicas: 0 }),
    validate: (object) => [...controllerCauses(object), ...countCauses(object)],
    status: { validate: countCauses },
  },
});

function defaultController(object: KubernetesObject): void {
  workload.defaultWorkload(object);
  const spec = objectAt(object, "spec");
  const labels = mapAt(spec, "template", "metadata", "labels");
  if (spec === undefined || Object.keys(labels).length === 0) return;
  if (spec["selector"] === undefined) spec["selector"] = structuredClone(labels) as typeof spec;
  if (Object.keys(object.metadata.labels ?? {}).length === 0) setField(object.metadata, "labels", structuredClone(labels));
}

function controllerCauses(object: workload.Read): StatusCause[] {
  const selector = mapAt(object, "spec", "selector");
  const labels = mapAt(object, "spec", "template", "metadata", "labels");
  const causes = [
    ...check.atLeast("spec.replicas", valueAt(object, "spec", "replicas")),
    ...check.atLeast("spec.minReadySeconds", valueAt(object, "spec", "minReadySeconds")),
  ];
  const hasTemplate = valueAt(object, "spec", "template") !== undefined;
  if (hasTemplate) causes.push(...podTemplateCauses(valueAt(object, "spec", "template"), "spec.template"));
  else causes.push(requiredCause("spec.template"));
  if (Object.keys(selector).length === 0) causes.push(requiredCause("spec.selector"));
  else if (Object.entries(selector).some(([key, value]) => !Object.hasOwn(labels, key) || labels[key] !== value)) {
    causes.push(workload.mismatchCause(labels));
  }
  if (!hasTemplate) return causes;
  const restart = textAt(object, "spec", "template", "spec", "restartPolicy");
  return [...causes, ...check.oneOf("spec.template.spec.restartPolicy", restart, ["Always"])];
}
