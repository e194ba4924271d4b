import type { KubernetesObject } from "@keelson/api-machinery";
import type { PodTemplate, ReplicaSetObject } from "@keelson/api-machinery/kinds";
import { requiredCause } from "@keelson/api-machinery/validation";
import { age } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource, column } from "../../builtin/builtin-resource.ts";
import { templateWarnings } from "../pod-template-warnings.ts";
import * as check from "../../field-checks.ts";
import { setField } from "../../object-fields.ts";
import type { DraftObject, ReceivedObject } from "../../received.ts";
import { podTemplateCauses } from "../pod/validation/spec-validation.ts";
import * as workload from "./workload.ts";
import type { Causes } from "../../causes.ts";

/** core/v1 ReplicationController. */
interface ReplicationControllerObject extends KubernetesObject {
  spec?: { replicas?: number; minReadySeconds?: number; selector?: Record<string, string>; template?: PodTemplate };
}

type Controller = ReceivedObject<ReplicaSetObject> | ReceivedObject<ReplicationControllerObject>;

const columns = [
  column("Desired", "The desired number of Pods.", { type: "integer" }),
  column("Current", "The current number of Pods.", { type: "integer" }),
  column("Ready", "The number of ready Pods.", { type: "integer" }),
  ageColumn,
  ...workload.templateColumns,
  workload.selectorColumn,
];

function cells(object: Controller, now: number): readonly (string | number)[] {
  return [
    workload.countAt(object, "spec", "replicas"),
    workload.countAt(object, "status", "replicas"),
    workload.countAt(object, "status", "readyReplicas"),
    age(object.metadata.creationTimestamp, now),
    ...workload.templateCells(object),
    workload.selectorCell(object.spec?.selector),
  ];
}

const selectableFields = {
  "status.replicas": (object: Controller) => String(workload.countAt(object, "status", "replicas")),
};

function* countCauses(object: Controller): Causes {
  yield* workload.statusCauses(
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
export const replicaSets = builtinResource<ReplicaSetObject>({
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
  strategy: {
    warnings: templateWarnings(["spec", "template"], true),
    default: (object) => workload.defaultWorkload(object),
    prepareForCreate: (object) => workload.emptyStatus(object, { replicas: 0 }),
    *validate(object) {
      yield* check.atLeast("spec.replicas", object.spec?.replicas);
      yield* check.atLeast("spec.minReadySeconds", object.spec?.minReadySeconds);
      yield* workload.templateCauses(object, { kind: "deployment", podOwner: "ReplicaSet" });
      yield* countCauses(object);
    },
    status: { validate: countCauses },
    validateUpdate: (object, old) => workload.immutableSpecCauses(object, old, ["selector"]),
  },
});

/** v1 ReplicationControllers, the predecessors of ReplicaSets, with a plain map as selector. */
export const replicationControllers = builtinResource<ReplicationControllerObject>({
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
    defaultPropagation: "Orphan",
    warnings: templateWarnings(["spec", "template"], true),
    default: defaultController,
    prepareForCreate: (object) => workload.emptyStatus(object, { replicas: 0 }),
    *validate(object) {
      yield* controllerCauses(object);
      yield* countCauses(object);
    },
    status: { validate: countCauses },
  },
});

function defaultController(object: DraftObject<ReplicationControllerObject>): void {
  workload.defaultWorkload(object);
  const spec = object.spec;
  const labels = spec?.template?.metadata?.labels ?? {};
  if (spec === undefined || Object.keys(labels).length === 0) return;
  if (Object.keys(spec.selector ?? {}).length === 0) spec.selector = structuredClone(labels);
  if (Object.keys(object.metadata.labels ?? {}).length === 0) setField(object.metadata, "labels", structuredClone(labels));
}

function* controllerCauses(object: ReceivedObject<ReplicationControllerObject>): Causes {
  const selector = object.spec?.selector ?? {};
  const template = object.spec?.template;
  const labels = template?.metadata?.labels ?? {};
  yield* check.atLeast("spec.minReadySeconds", object.spec?.minReadySeconds);
  const isEmpty = Object.keys(selector).length === 0;
  if (isEmpty) yield requiredCause("spec.selector");
  yield* check.atLeast("spec.replicas", object.spec?.replicas);
  if (template === undefined) {
    yield requiredCause("spec.template");
    return;
  }
  if (!isEmpty && Object.entries(selector).some(([key, value]) => !Object.hasOwn(labels, key) || labels[key] !== value)) {
    yield workload.mismatchCause(labels);
  }
  yield* podTemplateCauses(template, "spec.template");
  yield* workload.restartCauses(object, "ReplicationController");
}
