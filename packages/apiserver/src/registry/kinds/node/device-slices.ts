import { type DeepReadonly, isJsonObject, type JsonObject, jsonEquals, type KubernetesObject } from "@keelson/api-machinery";
import {
  dns1123LabelFaults,
  dns1123SubdomainFaults,
  duplicateCause,
  invalidCause,
  requiredCause,
  type StatusCause,
  tooLongCause,
  tooManyCause,
} from "@keelson/api-machinery/validation";
import * as check from "../../field-checks.ts";
import { listAt, mapAt, objectAt, objectsAt, textAt, valueAt } from "../../object-fields.ts";
import { qualifiedNameCauses } from "./device-names.ts";
import { type Causes, eachItem } from "../../causes.ts";

type Read = DeepReadonly<KubernetesObject>;

/** The fields of a feature that is off by default. */
interface Feature {
  readonly spec?: readonly string[];
  readonly devices: readonly string[];
  readonly capacities?: readonly string[];
}

/** Taints, partitions, binding conditions and shared devices. */
const disabledFeatures: readonly Feature[] = [
  { devices: ["taints"] },
  {
    spec: ["sharedCounters", "perDeviceNodeSelection"],
    devices: ["consumesCounters", "nodeName", "nodeSelector", "allNodes"],
  },
  { devices: ["bindsToNode", "bindingConditions", "bindingFailureConditions"] },
  { devices: ["allowMultipleAllocations"], capacities: ["requestPolicy"] },
];

/** Drops fields of features that are off by default, unless `old` has fields of the feature: it may be older than this rule. */
export function dropDisabledSliceFields(slice: KubernetesObject, old?: Read): void {
  const spec = objectAt(slice, "spec");
  if (spec === undefined) return;
  const oldSpec = objectAt(old, "spec");
  for (const feature of disabledFeatures) {
    if (oldSpec !== undefined && featureFields(oldSpec, feature).length > 0) continue;
    for (const { holder, field } of featureFields(spec, feature)) delete holder[field];
  }
}

/** The fields of a feature that a ResourceSlice has. */
function featureFields(spec: JsonObject, { spec: own = [], devices, capacities = [] }: Feature): readonly FieldOfFeature[] {
  const found = (holder: JsonObject, fields: readonly string[]): readonly FieldOfFeature[] =>
    fields.filter((field) => holder[field] !== undefined).map((field) => ({ holder, field }));
  return [
    ...found(spec, own),
    ...objectsAt(spec, "devices").flatMap((device) => [
      ...found(device, devices),
      ...Object.values(mapAt(device, "capacity")).flatMap((each) => (isJsonObject(each) ? found(each, capacities) : [])),
    ]),
  ];
}

interface FieldOfFeature {
  readonly holder: JsonObject;
  readonly field: string;
}

/** Validates a ResourceSlice. */
export function* sliceCauses(slice: Read): Causes {
  const spec = valueAt(slice, "spec");
  yield* check.driverName("spec.driver", textAt(spec, "driver"));
  yield* poolCauses(valueAt(spec, "pool"), "spec.pool");
  yield* placeCauses(spec);
  yield* deviceListCauses("spec.devices", listAt(spec, "devices"));
}

/** Validates a change of a ResourceSlice. */
export function changedSliceCauses(slice: Read, old: Read): StatusCause[] {
  return [["pool", "name"], ["driver"], ["nodeName"]].flatMap((names) => {
    const value = valueAt(slice, "spec", ...names);
    if (jsonEquals(value, valueAt(old, "spec", ...names))) return [];
    return [invalidCause(["spec", ...names].join("."), value ?? null, "field is immutable")];
  });
}

const maxPoolNameLength = 253;

function* poolCauses(pool: unknown, path: string): Causes {
  const name = textAt(pool, "name");
  const [slices, generation] = ["resourceSliceCount", "generation"].map((field) => Number(valueAt(pool, field) ?? 0));
  const faults = name.split("/").flatMap((part) => dns1123SubdomainFaults(part).map((fault) => ({ part, fault })));
  yield* name === ""
    ? [requiredCause(`${path}.name`)]
    : [
        ...(name.length > maxPoolNameLength ? [tooLongCause(`${path}.name`, maxPoolNameLength)] : []),
        ...faults.map(({ part, fault }) => invalidCause(`${path}.name`, part, fault)),
      ];
  yield* (slices ?? 0) <= 0 ? [invalidCause(`${path}.resourceSliceCount`, slices, "must be greater than zero")] : [];
  yield* (generation ?? 0) < 0 ? [invalidCause(`${path}.generation`, generation, "must be greater than or equal to zero")] : [];
}

function placeCauses(spec: unknown): StatusCause[] {
  const causes: StatusCause[] = [];
  const nodeName = valueAt(spec, "nodeName");
  const allNodes = valueAt(spec, "allNodes");
  if (nodeName === "")
    causes.push(invalidCause("spec.nodeName", nodeName, "must be either unset or set to a non-empty string"));
  else causes.push(...check.dnsSubdomain("spec.nodeName", nodeName));
  if (allNodes === false) causes.push(invalidCause("spec.allNodes", allNodes, "must be either unset or set to true"));
  const places = [
    ...(nodeName === undefined || nodeName === "" ? [] : ["`nodeName`"]),
    ...(valueAt(spec, "nodeSelector") === undefined ? [] : ["`nodeSelector`"]),
    ...(allNodes === true ? ["`allNodes`"] : []),
  ];
  if (places.length === 1) return causes;
  const detail = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
  if (places.length === 0) return [...causes, requiredCause("spec", detail)];
  return [...causes, invalidCause("spec", `{${places.join(", ")}}`, `${detail}, but multiple fields are set`)];
}

const maxDevices = 128;

/** Validates the devices, and that each has at most one definition. */
function* deviceListCauses(path: string, devices: readonly unknown[]): Causes {
  if (devices.length > maxDevices) {
    yield tooManyCause(path, devices.length, maxDevices);
    return;
  }
  const names = new Set<string>();
  const repeated: StatusCause[] = [];
  yield* eachItem(devices, function* (device, index) {
    const name = textAt(device, "name");
    if (names.has(name)) repeated.push(duplicateCause(`${path}[${index}]`, name));
    names.add(name);
    yield* deviceCauses(device, `${path}[${index}]`);
  });
  yield* repeated;
}

const maxAttributesAndCapacities = 32;
const maxKeyLength = 96;

function* deviceCauses(device: unknown, path: string): Causes {
  const name = textAt(device, "name");
  const [attributes, capacity] = [mapAt(device, "attributes"), mapAt(device, "capacity")];
  const count = Object.keys(attributes).length + Object.keys(capacity).length;
  const detail = `the total number of attributes and capacities must not exceed ${maxAttributesAndCapacities}`;
  yield* dns1123LabelFaults(name).map((fault) => invalidCause(`${path}.name`, name, fault));
  yield* count > maxAttributesAndCapacities ? [invalidCause(path, count, detail)] : [];
  yield* eachItem(Object.entries(attributes), ([key, attribute]) => [
    ...keyCauses(`${path}.attributes`, key),
    ...attributeCauses(attribute, `${path}.attributes[${key}]`),
  ]);
  yield* eachItem(Object.keys(capacity), (key) => keyCauses(`${path}.capacity`, key));
}

function keyCauses(path: string, key: string): StatusCause[] {
  return [...(key.length > maxKeyLength ? [tooLongCause(path, maxKeyLength)] : []), ...qualifiedNameCauses(path, key)];
}

const maxValueLength = 64;
const number = "(0|[1-9]\\d*)";
const preRelease = "(0|[1-9]\\d*|\\d*[a-zA-Z-][0-9a-zA-Z-]*)";
const semanticVersion = new RegExp(
  `^${number}\\.${number}\\.${number}(-${preRelease}(\\.${preRelease})*)?(\\+[0-9a-zA-Z-]+(\\.[0-9a-zA-Z-]+)*)?$`,
);

function attributeCauses(attribute: unknown, path: string): StatusCause[] {
  const [text, version] = [valueAt(attribute, "string"), valueAt(attribute, "version")];
  const set = ["bool", "int", "string", "version"].filter((field) => valueAt(attribute, field) !== undefined);
  const tooLong = (value: unknown, field: string): StatusCause[] =>
    String(value).length > maxValueLength ? [tooLongCause(`${path}.${field}`, maxValueLength)] : [];
  const isVersion = version === undefined || semanticVersion.test(String(version));
  const causes = [
    ...(text === undefined ? [] : tooLong(text, "string")),
    ...(isVersion ? [] : [invalidCause(`${path}.version`, version, "must be a string compatible with semver.org spec 2.0.0")]),
    ...(version === undefined ? [] : tooLong(version, "version")),
  ];
  if (set.length === 1) return causes;
  const shown = set.length === 0 ? "" : attribute;
  return [...causes, invalidCause(path, shown, "exactly one value must be specified")];
}
