import { type DeepReadonly, isJsonObject, type JsonObject, jsonEquals, type KubernetesObject } from "@keelson/api-machinery";
import { invalidCause, type StatusCause } from "@keelson/api-machinery/validation";
import { age } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource, column } from "../../builtin/builtin-resource.ts";
import { internalValue, type InternalType } from "../../builtin/internal-value.ts";
import { ensureMap, listAt, objectsAt, setField, textAt, valueAt } from "../../object-fields.ts";
import type { ServedResource } from "../../served-resource.ts";
import { claimedDeviceCauses, deviceConfigurationCauses, deviceSelectorCauses } from "./device-claim-validation.ts";
import { changedSliceCauses, dropDisabledSliceFields, sliceCauses } from "./device-slices.ts";

type Read = DeepReadonly<KubernetesObject>;

/** resource.k8s.io/v1, dynamic resource allocation (KEP-4381). The scheduler allocates no devices. */
export function deviceKinds(): readonly ServedResource[] {
  return [deviceClasses, claims, claimTemplates, slices];
}

const group = "resource.k8s.io";
const version = "v1";
const onlyAge = (object: Read, now: number): readonly string[] => [age(object.metadata.creationTimestamp, now)];

const deviceClasses = builtinResource({
  group,
  version,
  kind: "DeviceClass",
  plural: "deviceclasses",
  scope: "Cluster",
  columns: [ageColumn],
  cells: onlyAge,
  strategy: {
    // Extended resources backed by devices are off by default.
    prepareForCreate: (object) => setField(ensureMap(object, "spec"), "extendedResourceName", undefined),
    prepareForUpdate: (object, old) => {
      if (textAt(old, "spec", "extendedResourceName") !== "") return;
      setField(ensureMap(object, "spec"), "extendedResourceName", undefined);
    },
    *validate(object) {
      yield* deviceSelectorCauses("spec.selectors", listAt(object, "spec", "selectors"));
      yield* deviceConfigurationCauses("spec.config", listAt(object, "spec", "config"));
    },
  },
});

const claims = builtinResource({
  group,
  version,
  kind: "ResourceClaim",
  plural: "resourceclaims",
  scope: "Namespaced",
  hasStatus: true,
  columns: [column("State", "Whether it is allocated and reserved."), ageColumn],
  cells: (claim, now) => [stateOf(claim), age(claim.metadata.creationTimestamp, now)],
  strategy: {
    hasGeneration: false,
    default: (claim) => defaultRequests(valueAt(claim, "spec")),
    prepareForCreate: (claim) => {
      dropDisabledFields(valueAt(claim, "spec"));
      setField(claim, "status", {});
    },
    validateCreate: (claim) => claimedDeviceCauses("spec.devices", valueAt(claim, "spec", "devices")),
    prepareForUpdate: (claim, old) => dropDisabledFields(valueAt(claim, "spec"), valueAt(old, "spec")),
    // As in kube-apiserver, an update is not validated again: only an unchanged spec is valid.
    validateUpdate: (claim, old) => immutableSpec(claim, old, "resource.ResourceClaimSpec"),
  },
});

const claimTemplates = builtinResource({
  group,
  version,
  kind: "ResourceClaimTemplate",
  plural: "resourceclaimtemplates",
  scope: "Namespaced",
  columns: [ageColumn],
  cells: onlyAge,
  strategy: {
    hasGeneration: false,
    default: (template) => defaultRequests(valueAt(template, "spec", "spec")),
    prepareForCreate: (template) => dropDisabledFields(valueAt(template, "spec", "spec")),
    validateCreate: (template) => claimedDeviceCauses("spec.spec.devices", valueAt(template, "spec", "spec", "devices")),
    prepareForUpdate: (template, old) => dropDisabledFields(valueAt(template, "spec", "spec"), valueAt(old, "spec", "spec")),
    validateUpdate: (template, old) => immutableSpec(template, old, "resource.ResourceClaimTemplateSpec"),
  },
});

const slices = builtinResource({
  group,
  version,
  kind: "ResourceSlice",
  plural: "resourceslices",
  scope: "Cluster",
  columns: [
    column("Node", "The node of the devices."),
    column("Driver", "The driver of the devices."),
    column("Pool", "The pool of the devices."),
    ageColumn,
  ],
  cells: (slice, now) => [
    textAt(slice, "spec", "nodeName"),
    textAt(slice, "spec", "driver"),
    textAt(slice, "spec", "pool", "name"),
    age(slice.metadata.creationTimestamp, now),
  ],
  selectableFields: {
    "spec.driver": (slice) => textAt(slice, "spec", "driver"),
    "spec.nodeName": (slice) => textAt(slice, "spec", "nodeName"),
  },
  strategy: {
    prepareForCreate: (slice) => dropDisabledSliceFields(slice),
    prepareForUpdate: dropDisabledSliceFields,
    validate: sliceCauses,
    validateUpdate: changedSliceCauses,
  },
});

function stateOf(claim: Read): string {
  const states: string[] = [];
  if (claim.metadata.deletionTimestamp !== undefined) states.push("deleted");
  if (valueAt(claim, "status", "allocation") === undefined) {
    if (states.length === 0) states.push("pending");
  } else {
    states.push("allocated");
    if (listAt(claim, "status", "reservedFor").length > 0) states.push("reserved");
  }
  return states.join(",");
}

/** A request asks for one device unless it says otherwise. */
function defaultRequests(spec: unknown): void {
  for (const request of deviceRequests(spec)) defaultCount(request);
}

/** The requests of a DeviceClaim, with all alternatives. */
function deviceRequests(spec: unknown): readonly JsonObject[] {
  return objectsAt(spec, "devices", "requests").flatMap((request) => {
    const { exactly } = request;
    return [...(isJsonObject(exactly) ? [exactly] : []), ...objectsAt(request, "firstAvailable")];
  });
}

function defaultCount(request: JsonObject): void {
  request["allocationMode"] ??= "ExactCount";
  if (request["allocationMode"] === "ExactCount") request["count"] ??= 1;
  for (const toleration of objectsAt(request, "tolerations")) toleration["operator"] ??= "Equal";
}

/** Drops tolerations of taints and requested capacity, which are off by default, unless `old` has them: it may be older than this rule. */
function dropDisabledFields(spec: unknown, old?: unknown): void {
  const before = deviceRequests(old);
  for (const field of ["tolerations", "capacity"]) {
    if (before.some((request) => request[field] !== undefined)) continue;
    for (const request of deviceRequests(spec)) delete request[field];
  }
}

function immutableSpec(object: Read, old: Read, type: InternalType): StatusCause[] {
  const spec = valueAt(object, "spec");
  if (jsonEquals(spec, valueAt(old, "spec"))) return [];
  return [invalidCause("spec", internalValue(type, spec), "field is immutable")];
}
