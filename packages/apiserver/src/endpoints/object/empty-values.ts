import { isJsonObject, type JsonObject } from "@keelson/api-machinery";
import type { Schema } from "@keelson/api-machinery/schema";
import { setField } from "../../registry/object-fields.ts";

/**
 * Optional strings that are pointers in Go, where the empty string is a value (`storageClassName: ""` requests a volume without a
 * class). All other optional strings are absent when empty.
 */
const keptTexts = new Set([
  "apiGroup",
  "appProtocol",
  "fsType",
  "holderIdentity",
  "hostname",
  "ingressClassName",
  "localhostProfile",
  "name",
  "namespace",
  "nodeName",
  "preferredHolder",
  "runtimeClassName",
  "storageClassName",
  "strategy",
  "volumeAttributesClassName",
  "zone",
]);

/** Optional booleans and numbers that are not pointers in Go: false and 0 mean absent. */
const droppedFlags = new Set([
  "hostIPC",
  "hostNetwork",
  "hostPID",
  "paused",
  "publishNotReadyAddresses",
  "readOnly",
  "stdin",
  "stdinOnce",
  "tty",
  "unschedulable",
]);
const droppedNumbers = new Set(["healthCheckNodePort", "hostPort", "initialDelaySeconds", "minReadySeconds", "nodePort"]);
const droppedStatusNumbers = new Set([
  "active",
  "availableReplicas",
  "currentReplicas",
  "failed",
  "fullyLabeledReplicas",
  "observedGeneration",
  "readyReplicas",
  "replicas",
  "succeeded",
  "unavailableReplicas",
  "updatedReplicas",
]);

/** Required strings that are reported as invalid rather than missing when left out. */
const invalidTexts = new Set(["conditionType", "ip", "operator", "value", "whenUnsatisfiable"]);
/** Status structs that are not pointers in Go. */
const statusStructs = ["daemonEndpoints", "kubeletEndpoint", "lastState", "nodeInfo", "state"];
/** Status times that are not pointers in Go: null when absent. */
const statusTimes = ["finishedAt", "lastHeartbeatTime", "lastProbeTime", "lastTransitionTime", "lastUpdateTime", "startedAt"];

/**
 * Applies Go's zero values to an object of a built-in kind, in place. Clients decode into Go structs, which cannot distinguish a zero
 * value from an absent one:
 *
 * - null is removed, and so are optional empty lists, maps and strings, and false and 0 of some fields;
 * - nested structs always exist, even without fields: `spec`, the `metadata` of a template, required ones;
 * - required numbers and booleans get their zero value, and in a status also required strings and times (null).
 *
 * Top-level metadata is left unchanged.
 */
export function dropEmptyValues(schema: Schema, object: JsonObject): void {
  drop(schema, object, "root");
}

function drop(schema: Schema, value: JsonObject, location: Location): void {
  const { properties, additionalProperties, required = [] } = schema;
  if (properties !== undefined) {
    for (const name of ["metadata", "spec", ...required]) {
      if (value[name] === undefined && isStruct(properties, name)) value[name] = {};
    }
    if (location === "status") {
      for (const name of statusStructs) if (value[name] === undefined && isStruct(properties, name)) value[name] = {};
    }
  }
  for (const key of Object.keys(value)) {
    if (location === "root" && key === "metadata") continue;
    const child = value[key];
    const own = properties && Object.hasOwn(properties, key) ? properties[key] : undefined;
    const childSchema = own ?? (typeof additionalProperties === "object" ? additionalProperties : undefined);
    const isOptional = own !== undefined && !required.includes(key);
    if (child === null) {
      // A map keeps the key with a zero value.
      if (own === undefined && isText(childSchema)) value[key] = "";
      else if (childSchema?.type !== undefined) delete value[key];
    } else if (Array.isArray(child)) {
      if (child.length === 0 && isOptional && own.type === "array") delete value[key];
      else if (childSchema?.items) {
        for (const [index, item] of child.entries()) {
          if (isJsonObject(item)) drop(childSchema.items, item, location === "status" ? "status" : "other");
          else if (item === null && isText(childSchema.items)) child[index] = "";
        }
      }
    } else if (isJsonObject(child)) {
      if (childSchema === undefined) continue;
      const isMap = own !== undefined && own.additionalProperties !== undefined && own.properties === undefined;
      if (isMap && isOptional && Object.keys(child).length === 0) delete value[key];
      else drop(childSchema, child, location === "status" || (location === "root" && key === "status") ? "status" : "other");
    } else if (location !== "root" && isOptional && isZero(own, key, child, location)) delete value[key];
  }
  if (properties === undefined) return;
  for (const name of required) {
    if (value[name] === undefined) setField(value, name, zeroOf(properties, name, location === "status"));
  }
  if (location === "status") for (const name of statusTimes) if (Object.hasOwn(properties, name)) value[name] ??= null;
}

/** Go's zero value of a required field. Undefined if the zero value is indistinguishable from absence, or absence is an error. */
function zeroOf(properties: Properties, name: string, isStatus: boolean): unknown {
  const schema = Object.hasOwn(properties, name) ? properties[name] : undefined;
  if (schema?.type === "integer" || schema?.["x-kubernetes-int-or-string"] === true) return 0;
  if (schema?.type === "boolean") return false;
  if (isStatus && schema?.format === "date-time") return null;
  const isInvalid = invalidTexts.has(name) || (name === "key" && Object.hasOwn(properties, "operator"));
  return isText(schema) && (isStatus || isInvalid) ? "" : undefined;
}

function isText(schema: Schema | undefined): boolean {
  return schema?.type === "string" && schema.format === undefined;
}

type Properties = NonNullable<Schema["properties"]>;
type Location = "root" | "status" | "other";

/** Whether the field is a struct that is not a pointer in Go. Required selectors are pointers. */
function isStruct(properties: Properties, name: string): boolean {
  if (name === "selector" || !Object.hasOwn(properties, name)) return false;
  return properties[name]?.type === "object" && properties[name].properties !== undefined;
}

function isZero(schema: Schema, key: string, value: unknown, location: "status" | "other"): boolean {
  if (value === "") return schema.type === "string" && schema.default === undefined && !keptTexts.has(key);
  if (value === false) return droppedFlags.has(key);
  return value === 0 && (droppedNumbers.has(key) || (location === "status" && droppedStatusNumbers.has(key)));
}
