import { draft, isJsonObject, jsonEquals, type JsonObject, type KubernetesObject } from "@keelson/api-machinery";
import { forbiddenCause, invalidCause, type StatusCause } from "@keelson/api-machinery/validation";
import { age } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource, column } from "../../builtin/builtin-resource.ts";
import * as check from "../../field-checks.ts";
import { ensureMap, listAt, mapAt, objectAt, objectsAt, textAt, valueAt } from "../../object-fields.ts";
import { claimSpecCauses, defaultClaimSpec } from "../storage/persistent-volumes.ts";
import * as workload from "./workload.ts";

/** apps/v1 StatefulSets. */
export const statefulSets = builtinResource({
  group: "apps",
  version: "v1",
  kind: "StatefulSet",
  plural: "statefulsets",
  shortNames: ["sts"],
  categories: ["all"],
  scope: "Namespaced",
  hasStatus: true,
  scale: workload.replicaScale,
  columns: [column("Ready", "Ready Pods, of the desired ones."), ageColumn, ...workload.templateColumns],
  cells: (object, now) => [
    `${workload.countAt(object, "status", "readyReplicas")}/${workload.countAt(object, "spec", "replicas")}`,
    age(object.metadata.creationTimestamp, now),
    ...workload.templateCells(object),
  ],
  strategy: {
    warnings: workload.templateWarnings,
    default: defaultStatefulSet,
    prepareForCreate: (object) => workload.emptyStatus(object, { replicas: 0, availableReplicas: 0 }),
    validate: (object) => [
      ...workload.workloadCauses(object, claimedTemplate(object)),
      ...statefulCauses(object),
      ...countCauses(object),
    ],
    status: { validate: countCauses },
    validateUpdate: updateCauses,
  },
});

function defaultStatefulSet(object: KubernetesObject): void {
  workload.defaultWorkload(object);
  const spec = objectAt(object, "spec");
  if (spec === undefined) return;
  spec["podManagementPolicy"] ??= "OrderedReady";
  spec["revisionHistoryLimit"] ??= 10;
  const strategy = ensureMap(spec, "updateStrategy");
  strategy["type"] ??= "RollingUpdate";
  if (strategy["type"] === "RollingUpdate") ensureMap(strategy, "rollingUpdate")["partition"] ??= 0;
  const retention = ensureMap(spec, "persistentVolumeClaimRetentionPolicy");
  retention["whenDeleted"] ??= "Retain";
  retention["whenScaled"] ??= "Retain";
  for (const claim of objectsAt(spec, "volumeClaimTemplates")) {
    claim["apiVersion"] ??= "v1";
    claim["kind"] ??= "PersistentVolumeClaim";
    defaultClaimSpec(objectAt(claim, "spec"));
    ensureMap(claim, "status")["phase"] ??= "Pending";
  }
}

function countCauses(object: workload.Read): StatusCause[] {
  return workload.statusCauses(
    object,
    [
      "replicas",
      "readyReplicas",
      "currentReplicas",
      "updatedReplicas",
      "availableReplicas",
      "observedGeneration",
      "collisionCount",
    ],
    [
      ["readyReplicas", "replicas"],
      ["currentReplicas", "replicas"],
      ["updatedReplicas", "replicas"],
      ["availableReplicas", "replicas"],
      ["availableReplicas", "readyReplicas"],
    ],
  );
}

function statefulCauses(object: workload.Read): StatusCause[] {
  const spec = valueAt(object, "spec");
  const strategy = valueAt(spec, "updateStrategy");
  const retention = valueAt(spec, "persistentVolumeClaimRetentionPolicy");
  const causes = [
    ...check.oneOf("spec.podManagementPolicy", valueAt(spec, "podManagementPolicy"), ["OrderedReady", "Parallel"]),
    ...check.oneOf("spec.updateStrategy", valueAt(strategy, "type"), ["OnDelete", "RollingUpdate"]),
    ...check.atLeast("spec.updateStrategy.rollingUpdate.partition", valueAt(strategy, "rollingUpdate", "partition")),
    ...check.countOrPercent(
      "spec.updateStrategy.rollingUpdate.maxUnavailable",
      valueAt(strategy, "rollingUpdate", "maxUnavailable"),
    ),
    ...check.atLeast("spec.ordinals.start", valueAt(spec, "ordinals", "start")),
  ];
  if (textAt(strategy, "type") === "OnDelete" && valueAt(strategy, "rollingUpdate") !== undefined) {
    const detail = "only allowed for updateStrategy 'RollingUpdate'";
    causes.push(invalidCause("spec.updateStrategy.rollingUpdate", valueAt(strategy, "rollingUpdate"), detail));
  }
  for (const field of ["whenDeleted", "whenScaled"]) {
    const path = `spec.persistentVolumeClaimRetentionPolicy.${field}`;
    causes.push(...check.oneOf(path, valueAt(retention, field), ["Delete", "Retain"]));
  }
  for (const [index, claim] of listAt(spec, "volumeClaimTemplates").entries()) {
    const path = `spec.volumeClaimTemplates[${index}]`;
    causes.push(...check.dnsLabel(`${path}.metadata.name`, textAt(claim, "metadata", "name")));
    causes.push(...claimSpecCauses(valueAt(claim, "spec"), `${path}.spec`));
  }
  return causes;
}

/** The template with a volume for each claim, which containers mount by the name of the claim template. */
function claimedTemplate(object: workload.Read): unknown {
  const template = valueAt(object, "spec", "template");
  const spec = valueAt(template, "spec");
  if (!isJsonObject(template) || !isJsonObject(spec)) return template;
  const volumes = listAt(spec, "volumes");
  const named = new Set(volumes.map((volume) => textAt(volume, "name")));
  const claims = listAt(object, "spec", "volumeClaimTemplates")
    .map((claim) => textAt(claim, "metadata", "name"))
    .filter((name) => !named.has(name))
    .map((name) => ({ name, persistentVolumeClaim: { claimName: name } }));
  return { ...template, spec: { ...spec, volumes: [...volumes, ...claims] } };
}

const changeable = [
  "replicas",
  "ordinals",
  "template",
  "updateStrategy",
  "revisionHistoryLimit",
  "persistentVolumeClaimRetentionPolicy",
  "minReadySeconds",
];

function updateCauses(object: workload.Read, old: workload.Read): StatusCause[] {
  const fixed = (set: workload.Read): JsonObject => {
    const spec = draft(mapAt(set, "spec")) as JsonObject;
    for (const field of changeable) delete spec[field];
    return spec;
  };
  if (jsonEquals(fixed(object), fixed(old))) return [];
  const names = changeable.map((field) => `'${field}'`);
  const detail = `updates to statefulset spec for fields other than ${names.slice(0, -1).join(", ")} and ${names.at(-1) ?? ""} are forbidden`;
  return [forbiddenCause("spec", detail)];
}
