import { draft, jsonEquals, type JsonObject } from "@keelson/api-machinery";
import type { StatefulSetObject, PodTemplate } from "@keelson/api-machinery/kinds";
import { forbiddenCause, invalidCause, type StatusCause } from "@keelson/api-machinery/validation";
import { age } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource, column } from "../../builtin/builtin-resource.ts";
import { templateWarnings } from "../pod-template-warnings.ts";
import * as check from "../../field-checks.ts";
import { ensureMap, valueAt } from "../../object-fields.ts";
import type { DraftObject, Received, ReceivedObject } from "../../received.ts";
import { claimSpecCauses } from "../storage/claim-validation.ts";
import { defaultClaimSpec } from "../storage/persistent-volumes.ts";
import { isZero } from "./deployments.ts";
import * as workload from "./workload.ts";
import type { Causes } from "../../causes.ts";

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
    warnings: (object, old) => [
      ...templateWarnings(["spec", "template"], false)(object, old),
      ...((object.spec?.revisionHistoryLimit ?? 0) < 0 ? [historyWarning] : []),
    ],
    default: defaultStatefulSet,
    prepareForCreate: (object) => workload.emptyStatus(object, { replicas: 0, availableReplicas: 0 }),
    *validate(object) {
      yield* statefulCauses(object);
      yield* workload.templateCauses(object, { kind: "statefulset", podOwner: "StatefulSet" }, claimedTemplate(object));
      yield* countCauses(object);
    },
    status: { validate: countCauses },
    validateUpdate: updateCauses,
  },
});

const historyWarning =
  "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended";

function defaultStatefulSet(object: DraftObject<StatefulSetObject>): void {
  workload.defaultWorkload(object);
  const spec = object.spec;
  if (spec === undefined) return;
  spec.podManagementPolicy ??= "OrderedReady";
  spec.revisionHistoryLimit ??= 10;
  const strategy = ensureMap(spec, "updateStrategy");
  strategy.type ??= "RollingUpdate";
  if (strategy.type === "RollingUpdate") {
    const rolling = ensureMap(strategy, "rollingUpdate");
    rolling.partition ??= 0;
  }
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

function* countCauses(object: ReceivedObject<StatefulSetObject>): Causes {
  yield* workload.statusCauses(
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

function* statefulCauses(object: ReceivedObject<StatefulSetObject>): Causes {
  const spec = object.spec;
  const management = spec?.podManagementPolicy ?? "";
  if (management !== "OrderedReady" && management !== "Parallel") {
    yield invalidCause("spec.podManagementPolicy", management, "must be 'OrderedReady' or 'Parallel'");
  }
  yield* strategyCauses(spec?.updateStrategy);
  for (const field of ["whenDeleted", "whenScaled"]) {
    const path = `spec.persistentVolumeClaimRetentionPolicy.${field}`;
    const policy = valueAt(spec, "persistentVolumeClaimRetentionPolicy", field);
    yield* check.oneOf(path, policy, ["Retain", "Delete"]);
  }
  for (const [index, claim] of (spec?.volumeClaimTemplates ?? []).entries()) {
    yield;
    yield* claimSpecCauses(claim.spec, `spec.volumeClaimTemplates[${index}].spec`);
  }
  yield* check.atLeast("spec.replicas", spec?.replicas);
  yield* check.atLeast("spec.minReadySeconds", spec?.minReadySeconds);
  yield* check.atLeast("spec.ordinals.start", spec?.ordinals?.start);
  const service = spec?.serviceName ?? "";
  if (service !== "") yield* check.dnsLabel("spec.serviceName", service);
}

function strategyCauses(strategy: NonNullable<ReceivedObject<StatefulSetObject>["spec"]>["updateStrategy"]): StatusCause[] {
  const type = strategy?.type ?? "";
  const rolling = strategy?.rollingUpdate;
  const path = "spec.updateStrategy.rollingUpdate";
  // kube-apiserver prints its internal types.
  const shown =
    rolling === undefined ? null : { Partition: rolling.partition ?? 0, MaxUnavailable: rolling.maxUnavailable ?? null };
  if (type === "OnDelete") {
    return rolling === undefined ? [] : [invalidCause(path, shown, "only allowed for updateStrategy 'RollingUpdate'")];
  }
  if (type !== "RollingUpdate") {
    const detail = "must be 'RollingUpdate' or 'OnDelete'";
    return [invalidCause("spec.updateStrategy", { Type: type, RollingUpdate: shown }, detail)];
  }
  const unavailable = rolling?.maxUnavailable;
  const causes = [
    ...check.atLeast(`${path}.partition`, rolling?.partition),
    ...check.countOrPercent(`${path}.maxUnavailable`, unavailable),
  ];
  if (unavailable !== undefined && isZero(unavailable)) {
    causes.push(invalidCause(`${path}.maxUnavailable`, unavailable, "cannot be 0"));
  }
  if ((check.percentOf(unavailable) ?? 0) > 100) {
    causes.push(invalidCause(`${path}.maxUnavailable`, unavailable, "must not be greater than 100%"));
  }
  return causes;
}

/** The template with a volume for each claim, which containers mount by the name of the claim template. */
function claimedTemplate(object: ReceivedObject<StatefulSetObject>): Received<PodTemplate> | undefined {
  const template = object.spec?.template;
  const spec = template?.spec;
  if (template === undefined || spec === undefined) return template;
  const claims = object.spec?.volumeClaimTemplates ?? [];
  if (claims.length === 0) return template;
  const names = new Set(claims.map((claim) => claim.metadata?.name ?? ""));
  const claimed = [...names].map((name) => ({ name, persistentVolumeClaim: { claimName: name } }));
  const volumes = (spec.volumes ?? []).filter((volume) => !names.has(volume.name ?? ""));
  // The controller sets host name and subdomain.
  const { hostname: _hostname, subdomain: _subdomain, ...others } = spec;
  return { ...template, spec: { ...others, volumes: [...claimed, ...volumes] } };
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

function* updateCauses(object: ReceivedObject<StatefulSetObject>, old: ReceivedObject<StatefulSetObject>): Causes {
  const fixed = (set: ReceivedObject<StatefulSetObject>): JsonObject => {
    const spec = draft(set.spec ?? {}) as JsonObject;
    for (const field of changeable) delete spec[field];
    return spec;
  };
  if (jsonEquals(fixed(object), fixed(old))) return;
  const names = changeable.map((field) => `'${field}'`);
  const detail = `updates to statefulset spec for fields other than ${names.slice(0, -1).join(", ")} and ${names.at(-1) ?? ""} are forbidden`;
  yield forbiddenCause("spec", detail);
}
