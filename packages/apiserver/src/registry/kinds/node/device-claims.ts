import { type DeepReadonly, isJsonObject, type JsonObject, jsonEquals, type KubernetesObject } from "@keelson/api-machinery";
import { compileExpression } from "@keelson/api-machinery/cel";
import { duplicateCause, invalidCause, requiredCause, type StatusCause, tooManyCause } from "@keelson/api-machinery/validation";
import { age } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource, column } from "../../builtin/builtin-resource.ts";
import * as check from "../../field-checks.ts";
import { ensureMap, listAt, objectsAt, setField, textAt, valueAt } from "../../object-fields.ts";
import type { ServedResource } from "../../served-resource.ts";

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
    validate: (object) => [
      ...selectorCauses("spec.selectors", listAt(object, "spec", "selectors")),
      ...configurationCauses("spec.config", listAt(object, "spec", "config")),
    ],
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
    prepareForCreate: (claim) => setField(claim, "status", {}),
    validate: (claim) => deviceCauses("spec.devices", valueAt(claim, "spec", "devices")),
    validateUpdate: immutableSpec,
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
    validate: (template) => deviceCauses("spec.spec.devices", valueAt(template, "spec", "spec", "devices")),
    validateUpdate: immutableSpec,
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
    validate: (slice) => {
      const spec = valueAt(slice, "spec");
      const places = ["nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"].filter(
        (name) => valueAt(spec, name) !== undefined,
      );
      return [
        ...check.nonEmpty("spec.driver", valueAt(spec, "driver")),
        ...check.nonEmpty("spec.pool.name", valueAt(spec, "pool", "name")),
        ...(places.length > 0
          ? []
          : [
              requiredCause(
                "spec",
                "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required",
              ),
            ]),
        ...(places.length > 1
          ? [
              invalidCause(
                "spec",
                `{${places.map((name) => `\`${name}\``).join(", ")}}`,
                "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required, but multiple fields are set",
              ),
            ]
          : []),
        ...sliceDeviceCauses("spec.devices", listAt(spec, "devices")),
      ];
    },
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
  for (const request of objectsAt(spec, "devices", "requests")) {
    const { exactly } = request;
    for (const each of [...(isJsonObject(exactly) ? [exactly] : []), ...objectsAt(request, "firstAvailable")])
      defaultCount(each);
  }
}

function defaultCount(request: JsonObject): void {
  request["allocationMode"] ??= "ExactCount";
  if (request["allocationMode"] === "ExactCount") request["count"] ??= 1;
  for (const toleration of objectsAt(request, "tolerations")) toleration["operator"] ??= "Equal";
}

function deviceCauses(path: string, devices: unknown): StatusCause[] {
  return [
    ...requestCauses(`${path}.requests`, listAt(devices, "requests")),
    ...configurationCauses(`${path}.config`, listAt(devices, "config")),
  ];
}

/** Validates the parameters of drivers in the configuration of a claim or class. */
function configurationCauses(path: string, configurations: readonly unknown[]): StatusCause[] {
  return configurations.flatMap((configuration, index) => {
    const opaque = valueAt(configuration, "opaque");
    if (opaque === undefined) return [];
    const field = `${path}[${index}].opaque`;
    const driver = textAt(opaque, "driver");
    return [
      ...check.driverName(`${field}.driver`, driver),
      ...(valueAt(opaque, "parameters") === undefined ? [requiredCause(`${field}.parameters`)] : []),
    ];
  });
}

function requestCauses(path: string, requests: readonly unknown[]): StatusCause[] {
  return requests.flatMap((request, index) => {
    const field = `${path}[${index}]`;
    const exactly = valueAt(request, "exactly");
    const alternatives = listAt(request, "firstAvailable");
    const causes = check.dnsLabel(`${field}.name`, valueAt(request, "name"));
    if (exactly === undefined && alternatives.length === 0) {
      causes.push(requiredCause(field, "exactly one of `exactly` or `firstAvailable` is required"));
    }
    if (exactly !== undefined) causes.push(...exactRequestCauses(`${field}.exactly`, exactly));
    else {
      for (const [at, alternative] of alternatives.entries()) {
        const path = `${field}.firstAvailable[${at}]`;
        causes.push(...check.dnsLabel(`${path}.name`, textAt(alternative, "name")), ...exactRequestCauses(path, alternative));
      }
    }
    return causes;
  });
}

function exactRequestCauses(path: string, request: unknown): StatusCause[] {
  return [
    ...check.nonEmpty(`${path}.deviceClassName`, valueAt(request, "deviceClassName")),
    ...selectorCauses(`${path}.selectors`, listAt(request, "selectors")),
  ];
}

const maxSelectors = 32;

/** Validates selectors of devices. Of their expressions only empty ones are rejected: the scheduler allocates no devices. */
function selectorCauses(path: string, selectors: readonly unknown[]): StatusCause[] {
  if (selectors.length > maxSelectors) return [tooManyCause(path, selectors.length, maxSelectors)];
  return selectors.flatMap((selector, index) => {
    const field = `${path}[${index}].cel`;
    if (valueAt(selector, "cel") === undefined) return [requiredCause(field)];
    const expression = textAt(selector, "cel", "expression");
    if (expression !== "") return [];
    const fault = compileExpression(expression, ["device"], "bool");
    return typeof fault === "string" ? [invalidCause(`${field}.expression`, expression, fault)] : [];
  });
}

const maxDevices = 128;
const maxTaintedDevices = 64;

/** Validates the names of a slice's devices, and that each has at most one definition. */
function sliceDeviceCauses(path: string, devices: readonly unknown[]): StatusCause[] {
  const isTainted = devices.some((device) => listAt(device, "taints").length + listAt(device, "consumesCounters").length > 0);
  const max = isTainted ? maxTaintedDevices : maxDevices;
  if (devices.length > max) return [tooManyCause(path, devices.length, max)];
  const names = new Set<string>();
  const repeated: StatusCause[] = [];
  const causes = devices.flatMap((device, index) => {
    const name = textAt(device, "name");
    if (names.has(name)) repeated.push(duplicateCause(`${path}[${index}]`, name));
    names.add(name);
    return check.dnsLabel(`${path}[${index}].name`, name);
  });
  return [...causes, ...repeated];
}

function immutableSpec(object: Read, old: Read): StatusCause[] {
  const spec = valueAt(object, "spec");
  return jsonEquals(spec, valueAt(old, "spec")) ? [] : [invalidCause("spec", spec, "field is immutable")];
}
