import { draft, jsonEquals, type JsonObject } from "@keelson/api-machinery";
import type { StatefulSetObject, PodTemplate } from "@keelson/api-machinery/kinds";
import { forbiddenCause, invalidCause, type StatusCause } from "@keelson/api-machinery/validation";
import { age } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource, column } from "../../builtin/builtin-resource.ts";
import * as check from "../../field-checks.ts";
import { ensureMap, valueAt } from "../../object-fields.ts";
import type { DraftObject, Received, ReceivedObject } from "../../received.ts";
import { claimSpecCauses } from "../storage/claim-validation.ts";
import { defaultClaimSpec } from "../storage/persistent-volumes.ts";
import * as workload from "./workload.ts";

/** apps/v1 StatefulSets. */
export const statefulSets = builtinResource<StatefulSetObject>({
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

function defaultStatefulSet(object: DraftObject<StatefulSetObject>): void {
  workload.defaultWorkload(object);
  const spec = object.spec;
  if (spec === undefined) return;
  spec.podManagementPolicy ??= "OrderedReady";
  spec.revisionHistoryLimit ??= 10;
  const strategy = ensureMap(spec, "updateStrategy");
  strategy.type ??= "RollingUpdate";
  if (strategy.type === "RollingUpdate") ensureMap(strategy, "rollingUpdate").partition ??= 0;
  const retention = ensureMap(spec, "persistentVolumeClaimRetentionPolicy");
  retention.whenDeleted ??= "Retain";
  retention.whenScaled ??= "Retain";
  for (const claim of spec.volumeClaimTemplates ?? []) {
    claim.apiVersion ??= "v1";
    claim.kind ??= "PersistentVolumeClaim";
    defaultClaimSpec(claim.spec);
    ensureMap(claim, "status").phase ??= "Pending";
  }
}

function countCauses(object: ReceivedObject<StatefulSetObject>): StatusCause[] {
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

function statefulCauses(object: ReceivedObject<StatefulSetObject>): StatusCause[] {
  const spec = object.spec;
  const strategy = spec?.updateStrategy;
  const retention = spec?.persistentVolumeClaimRetentionPolicy;
  const causes = [
    ...check.oneOf("spec.podManagementPolicy", spec?.podManagementPolicy, ["OrderedReady", "Parallel"]),
    ...check.oneOf("spec.updateStrategy", strategy?.type, ["OnDelete", "RollingUpdate"]),
    ...check.atLeast("spec.updateStrategy.rollingUpdate.partition", strategy?.rollingUpdate?.partition),
    ...check.countOrPercent("spec.updateStrategy.rollingUpdate.maxUnavailable", strategy?.rollingUpdate?.maxUnavailable),
    ...check.atLeast("spec.ordinals.start", spec?.ordinals?.start),
  ];
  if (strategy?.type === "OnDelete" && strategy?.rollingUpdate !== undefined) {
    const detail = "only allowed for updateStrategy 'RollingUpdate'";
    causes.push(invalidCause("spec.updateStrategy.rollingUpdate", strategy?.rollingUpdate, detail));
  }
  for (const field of ["whenDeleted", "whenScaled"]) {
    const path = `spec.persistentVolumeClaimRetentionPolicy.${field}`;
    causes.push(...check.oneOf(path, valueAt(retention, field), ["Delete", "Retain"]));
  }
  for (const [index, claim] of (spec?.volumeClaimTemplates ?? []).entries()) {
    const path = `spec.volumeClaimTemplates[${index}]`;
    causes.push(...check.dnsLabel(`${path}.metadata.name`, claim.metadata?.name ?? ""));
    causes.push(...claimSpecCauses(claim.spec, `${path}.spec`));
  }
  return causes;
}

/** The template with a volume for each claim, which containers mount by the name of the claim template. */
function claimedTemplate(object: ReceivedObject<StatefulSetObject>): Received<PodTemplate> | undefined {
  const template = object.spec?.template;
  const spec = template?.spec;
  if (template === undefined || spec === undefined) return template;
  const volumes = spec.volumes ?? [];
  const named = new Set(volumes.map((volume) => volume.name ?? ""));
  const claims = (object.spec?.volumeClaimTemplates ?? [])
    .map((claim) => claim.metadata?.name ?? "")
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

function updateCauses(object: ReceivedObject<StatefulSetObject>, old: ReceivedObject<StatefulSetObject>): StatusCause[] {
  const fixed = (set: ReceivedObject<StatefulSetObject>): JsonObject => {
    const spec = draft(set.spec ?? {}) as JsonObject;
    for (const field of changeable) delete spec[field];
    return spec;
  };
  if (jsonEquals(fixed(object), fixed(old))) return [];
  const names = changeable.map((field) => `'${field}'`);
  const detail = `updates to statefulset spec for fields other than ${names.slice(0, -1).join(", ")} and ${names.at(-1) ?? ""} are forbidden`;
  return [forbiddenCause("spec", detail)];
}
