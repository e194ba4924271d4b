import { apiVersionOf, isJsonObject, type JsonObject, type KubernetesObject, setOwn } from "@keelson/api-machinery";
import type { ServedResource } from "../../registry/served-resource.ts";
import { badRequest, invalid } from "../errors.ts";

/** How deep a body may be nested; what walks it recurses. */
const deepest = 256;

/**
 * A copy of a JSON value that may be changed, without `undefined`. Throws `BadRequest` where it is nested too deep or holds what
 * JSON can't say (a Date, a function): a client in process can hand over anything.
 */
export function copyJson(value: unknown, depth = 0): unknown {
  if (value === null || typeof value === "string" || typeof value === "boolean") return value;
  if (typeof value === "number") {
    if (!Number.isFinite(value)) throw badRequest(`the body contains ${value}, which JSON has no form for`);
    return value;
  }
  if (typeof value !== "object") throw badRequest(`the body contains a ${typeof value}, which JSON has no form for`);
  if (depth >= deepest) throw badRequest(`the body is nested more than ${deepest} levels deep`);
  if (Array.isArray(value)) return value.map((item) => copyJson(item ?? null, depth + 1));
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) {
    throw badRequest(`the body contains a ${value.constructor.name}, which JSON has no form for`);
  }
  const result: JsonObject = {};
  for (const key of Object.keys(value)) {
    const child = (value as Record<string, unknown>)[key];
    if (child !== undefined) setOwn(result, key, copyJson(child, depth + 1));
  }
  return result;
}

/** A body as an object of `resource`: its kind and version are checked, or filled in for a built-in kind. Its own copy. */
export function readBody(resource: ServedResource, body: unknown): KubernetesObject {
  if (!isJsonObject(body)) {
    throw badRequest(
      `the object provided is unrecognized (must be of type ${resource.kind}): couldn't get version/kind; it is ${
        body === undefined ? "empty" : "not a JSON object"
      }`,
    );
  }
  const object = copyJson(body) as JsonObject;
  return asObject(resource, object);
}

/** Checks `apiVersion` and `kind` and gives them and `metadata` where a built-in kind leaves them out. */
export function asObject(resource: ServedResource, object: JsonObject): KubernetesObject {
  const apiVersion = apiVersionOf(resource);
  const given = object["apiVersion"] ?? "";
  const kind = object["kind"] ?? "";
  const isBuiltIn = resource.origin === "builtin";
  if (!isBuiltIn) {
    if (kind === "") throw badRequest("Object 'Kind' is missing in the body");
    if (given === "") throw badRequest("Object 'apiVersion' is missing in the body");
  }
  if (kind !== "" && kind !== resource.kind) {
    if (isBuiltIn) {
      throw badRequest(
        `${String(kind)} in version ${JSON.stringify(resource.version)} cannot be handled as a ${resource.kind}: unknown conversion`,
      );
    }
    throw invalid({ group: resource.group, kind: String(kind) }, nameOf(object), [
      {
        reason: "FieldValueInvalid",
        field: "kind",
        message: `Invalid value: ${JSON.stringify(kind)}: must be ${resource.kind}`,
      },
    ]);
  }
  if (given !== "" && given !== apiVersion) {
    throw badRequest(`the API version in the data (${String(given)}) does not match the expected API version (${apiVersion})`);
  }
  const result = { ...object };
  result["apiVersion"] = apiVersion;
  result["kind"] = resource.kind;
  result["metadata"] = object["metadata"] ?? {};
  return result as unknown as KubernetesObject;
}

function nameOf(object: JsonObject): string {
  const metadata = object["metadata"];
  return isJsonObject(metadata) && typeof metadata["name"] === "string" ? metadata["name"] : "";
}

/** The body of a write through an object's URL names that object. `Kubernetes` says so in three ways. */
export function requireNames(object: KubernetesObject, name: string, namespace: string): void {
  const given = object.metadata.name ?? "";
  if (given === "") throw badRequest(`the name of the object (${name} based on URL) was undeterminable: name must be provided`);
  if (given !== name) throw badRequest(`the name of the object (${given}) does not match the name on the URL (${name})`);
  const givenNamespace = object.metadata.namespace ?? "";
  if (namespace !== "" && givenNamespace !== "" && givenNamespace !== namespace) {
    throw badRequest(
      `the namespace of the object (${givenNamespace}) does not match the namespace on the request (${namespace})`,
    );
  }
}
