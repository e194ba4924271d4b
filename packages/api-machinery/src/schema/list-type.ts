import { isJsonObject } from "../objects/json.ts";
import { forbiddenCause, invalidCause, notSupportedCause, requiredCause } from "../protocol/field-causes.ts";
import type { StatusCause } from "../protocol/status.ts";
import { asNode, list, type SchemaNode } from "./schema-node.ts";

/** Checks `x-kubernetes-list-type`, `x-kubernetes-list-map-keys` and `x-kubernetes-map-type`. */
export function checkListType(schema: SchemaNode, path: string, causes: StatusCause[]): void {
  const listType = schema["x-kubernetes-list-type"];
  const mapType = schema["x-kubernetes-map-type"];
  const keys = list(schema["x-kubernetes-list-map-keys"]).map(String);
  const typePath = `${path}.type`;
  const needsType = (wanted: string, extension: string): void => {
    const detail = `must be ${wanted} if ${extension} is specified`;
    if (schema.type === wanted) return;
    causes.push(schema.type === undefined ? requiredCause(typePath, detail) : invalidCause(typePath, schema.type, detail));
  };
  if (mapType !== undefined) {
    needsType("object", "x-kubernetes-map-type");
    if (mapType !== "granular" && mapType !== "atomic") {
      causes.push(notSupportedCause(`${path}.x-kubernetes-map-type`, mapType, ["atomic", "granular"]));
    }
  }
  const listTypePath = `${path}.x-kubernetes-list-type`;
  if (listType !== undefined) {
    needsType("array", "x-kubernetes-list-type");
    if (listType !== "atomic" && listType !== "set" && listType !== "map") {
      causes.push(notSupportedCause(listTypePath, listType, ["atomic", "set", "map"]));
    }
  }
  if (keys.length > 0 && listType !== "map") {
    const detail = "must be map if x-kubernetes-list-map-keys is non-empty";
    causes.push(listType === undefined ? requiredCause(listTypePath, detail) : invalidCause(listTypePath, listType, detail));
  }
  if (listType === "map") checkMapKeys(schema, keys, path, causes);
  if (listType === "set") checkSetItems(asNode(schema.items), `${path}.items`, causes);
}

function checkMapKeys(schema: SchemaNode, keys: readonly string[], path: string, causes: StatusCause[]): void {
  const at = `${path}.x-kubernetes-list-map-keys`;
  if (keys.length === 0) causes.push(requiredCause(at, "must not be empty if x-kubernetes-list-type is map"));
  if (!isJsonObject(schema.items)) {
    causes.push(requiredCause(`${path}.items`, "must have a schema if x-kubernetes-list-type is map"));
    return;
  }
  const items = schema.items;
  if (items.type !== "object") {
    causes.push(
      invalidCause(`${path}.items.type`, items.type ?? "", "must be object if parent array's x-kubernetes-list-type is map"),
    );
    return;
  }
  const properties = asNode(items.properties);
  const unknown = keys.some((key) => !Object.hasOwn(properties, key));
  if (unknown) causes.push(invalidCause(at, keys, "entries must all be names of item properties"));
  if (new Set(keys).size < keys.length) causes.push(invalidCause(at, keys, "must not contain duplicate entries"));
  for (const key of keys) {
    if (!Object.hasOwn(properties, key)) continue;
    const property = asNode(properties[key]);
    const propertyPath = `${path}.items.properties[${key}]`;
    if (property.type === "array" || property.type === "object") {
      const detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
      causes.push(invalidCause(`${propertyPath}.type`, property.type, detail));
    }
    if (property.nullable === true) {
      const detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
      causes.push(forbiddenCause(`${propertyPath}.nullable`, detail));
    }
    if (property.default === undefined && !list(items.required).includes(key)) {
      const detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
      causes.push(requiredCause(`${propertyPath}.default`, detail));
    }
  }
}

function checkSetItems(items: SchemaNode, path: string, causes: StatusCause[]): void {
  const detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
  if (items.nullable === true) {
    causes.push(forbiddenCause(`${path}.nullable`, "cannot be nullable when x-kubernetes-list-type is set"));
  }
  if (items.type === "object" && items["x-kubernetes-map-type"] !== "atomic") {
    causes.push(invalidCause(`${path}.x-kubernetes-map-type`, items["x-kubernetes-map-type"] ?? null, detail));
  }
  const listType = items["x-kubernetes-list-type"];
  if (items.type === "array" && listType !== undefined && listType !== "atomic") {
    causes.push(invalidCause(`${path}.x-kubernetes-list-type`, listType, detail));
  }
}
