import { isJsonObject, type JsonObject } from "@keelson/api-machinery";
import type { Schema } from "@keelson/api-machinery/schema";
import { setField } from "../../registry/object-fields.ts";

/**
 * Optional texts that Go keeps by pointer: empty is a value of its own (`storageClassName: ""` asks for a volume without class). All
 * other optional texts are absent when they are empty.
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

/** Optional flags and numbers that Go does not keep by pointer: false and 0 are the same as absent. */
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

/** Required texts that are invalid rather than missing where they are left out. */
const invalidTexts = new Set(["conditionType", "ip", "operator", "value", "whenUnsatisfiable"]);
/** Structs of a status that Go does not keep by pointer. */
const statusStructs = ["daemonEndpoints", "kubeletEndpoint", "lastState", "nodeInfo", "state"];
/** Times of a status that Go does not keep by pointer: null where they are absent. */
const statusTimes = ["finishedAt", "lastHeartbeatTime", "lastProbeTime", "lastTransitionTime", "lastUpdateTime", "startedAt"];

/**
 * Removes what is no value of a built-in kind, in place: null, and where they are not required, empty lists, maps and texts, and false and
 * 0 of some fields. Clients of Kubernetes decode to Go structs, which do not tell these from absent ones. Metadata is left alone.
 * For the same reason a struct that is part of another one is always there: a `spec`, the `metadata` of a template, and whatever is
 * required, if need be without fields. So are required numbers and flags, and in a status, which nobody validates much, required texts,
 * and times, which are null.
 */
export function dropEmpty(schema: Schema, object: JsonObject): void {
  drop(schema, object, "root");
}

function drop(schema: Schema, value: JsonObject, place: "root" | "status" | "other"): void {
  const { properties, additionalProperties, required = [] } = schema;
  if (properties !== undefined) {
    for (const name of ["metadata", "spec", ...required]) {
      if (value[name] === undefined && isStruct(properties, name)) value[name] = {};
    }
    if (place === "status") {
      for (const name of statusStructs) if (value[name] === undefined && isStruct(properties, name)) value[name] = {};
    }
  }
  for (const key of Object.keys(value)) {
    if (place === "root" && key === "metadata") continue;
    const child = value[key];
    const own = properties && Object.hasOwn(properties, key) ? properties[key] : undefined;
    const childSchema = own ?? (typeof additionalProperties === "object" ? additionalProperties : undefined);
    const isOptional = own !== undefined && !required.includes(key);
    if (child === null) {
      // In a map the key is there: its value is a zero value.
      if (own === undefined && isText(childSchema)) value[key] = "";
      else if (childSchema?.type !== undefined) delete value[key];
    } else if (Array.isArray(child)) {
      if (child.length === 0 && isOptional && own.type === "array") delete value[key];
      else if (childSchema?.items) {
        for (const [index, item] of child.entries()) {
          if (isJsonObject(item)) drop(childSchema.items, item, place === "status" ? "status" : "other");
          else if (item === null && isText(childSchema.items)) child[index] = "";
        }
      }
    } else if (isJsonObject(child)) {
      if (childSchema === undefined) continue;
      const isMap = own !== undefined && own.additionalProperties !== undefined && own.properties === undefined;
      if (isMap && isOptional && Object.keys(child).length === 0) delete value[key];
      else drop(childSchema, child, place === "status" || (place === "root" && key === "status") ? "status" : "other");
    } else if (place !== "root" && isOptional && isZero(own, key, child, place)) delete value[key];
  }
  if (properties === undefined) return;
  for (const name of required) {
    if (value[name] === undefined) setField(value, name, zeroOf(properties, name, place === "status"));
  }
  if (place === "status") for (const name of statusTimes) if (Object.hasOwn(properties, name)) value[name] ??= null;
}

/** What Go has where a required field is left out; undefined where that is no value of its own, or is told to be missing. */
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

/** Whether the field is a struct that Go does not keep by pointer. The selectors that are required it does. */
function isStruct(properties: Properties, name: string): boolean {
  if (name === "selector" || !Object.hasOwn(properties, name)) return false;
  return properties[name]?.type === "object" && properties[name].properties !== undefined;
}

function isZero(schema: Schema, key: string, value: unknown, place: "status" | "other"): boolean {
  if (value === "") return schema.type === "string" && schema.default === undefined && !keptTexts.has(key);
  if (value === false) return droppedFlags.has(key);
  return value === 0 && (droppedNumbers.has(key) || (place === "status" && droppedStatusNumbers.has(key)));
}
