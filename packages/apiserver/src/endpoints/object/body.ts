import {
  apiVersionOf,
  isJsonObject,
  type JsonObject,
  type KubernetesObject,
  parseApiVersion,
  setOwn,
} from "@keelson/api-machinery";
import { invalidCause } from "@keelson/api-machinery/validation";
import { definitionNameOfKind } from "../../registry/builtin/definition.ts";
import type { ServedResource } from "../../registry/served-resource.ts";
import { badRequest, invalid } from "../errors.ts";
import { jsonType } from "./decode-error.ts";
import { bodySummary, unrecognized } from "./unreadable-body.ts";

/** Maximum nesting of a body. The functions that walk one are recursive. */
const maxDepth = 256;

/**
 * Returns a mutable copy of a JSON value without `undefined`. In-process clients can pass any value, so anything JSON cannot
 * represent (a Date, a function) is rejected.
 *
 * **Errors**: `BadRequest` if the value is nested too deep or is not JSON.
 */
export function copyJson(value: unknown, depth = 0): unknown {
  if (value === null || typeof value === "string" || typeof value === "boolean") return value;
  if (typeof value === "number") {
    if (!Number.isFinite(value)) throw badRequest(`the body contains ${value}, which JSON cannot represent`);
    return value;
  }
  if (typeof value !== "object") throw badRequest(`the body contains a ${typeof value}, which JSON cannot represent`);
  if (depth >= maxDepth) throw badRequest(`the body is nested more than ${maxDepth} levels deep`);
  if (Array.isArray(value)) return value.map((item) => copyJson(item ?? null, depth + 1));
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) {
    throw badRequest(`the body contains a ${value.constructor.name}, which JSON cannot represent`);
  }
  const result: JsonObject = {};
  for (const key of Object.keys(value)) {
    const child = (value as Record<string, unknown>)[key];
    if (child !== undefined) setOwn(result, key, copyJson(child, depth + 1));
  }
  return result;
}

/** Reads a body as an object of `resource`. Checks its kind and version, or fills them in for a built-in kind. Returns a copy. */
export function readBody(resource: ServedResource, body: unknown): KubernetesObject {
  // An empty document, or `null`.
  if (body === null && resource.origin === "builtin") return withTypeMeta(resource, {});
  if (!isJsonObject(body)) {
    const why = `couldn't get version/kind; json parse error: ${noObject(body)}`;
    throw unrecognized(resource.kind, why, bodySummary(body === undefined ? "" : JSON.stringify(body)));
  }
  const object = copyJson(body) as JsonObject;
  return withTypeMeta(resource, object);
}

/** Why a body is not an object, in the words of Go's decoder. */
function noObject(body: unknown): string {
  if (body === undefined) return "unexpected end of JSON input";
  const type = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }';
  return `json: cannot unmarshal ${jsonType(body, type)} into Go value of type ${type}`;
}

/** Checks `apiVersion` and `kind`. For a built-in kind, missing ones are filled in, and so is `metadata`. */
export function withTypeMeta(resource: ServedResource, object: JsonObject): KubernetesObject {
  const apiVersion = apiVersionOf(resource);
  const given = object["apiVersion"] ?? "";
  const kind = object["kind"] ?? "";
  const isBuiltIn = resource.origin === "builtin";
  for (const [name, value] of [
    ["kind", kind],
    ["apiVersion", given],
  ] as const) {
    if (typeof value !== "string") throw unreadableType(resource, object, name, value);
  }
  if (!isBuiltIn) {
    if (kind === "") throw badRequest("Object 'Kind' is missing in the body");
    if (given === "") throw badRequest("Object 'apiVersion' is missing in the body");
  }
  if (!isBuiltIn && given !== apiVersion) throw wrongVersion(given, apiVersion);
  if (isBuiltIn) requireBuiltInType(resource, object);
  else if (kind !== resource.kind) throw wrongKind(resource, object, kind);
  const result = { ...object };
  result["apiVersion"] = apiVersion;
  result["kind"] = resource.kind;
  result["metadata"] = object["metadata"] ?? {};
  return result as unknown as KubernetesObject;
}

function unreadableType({ kind }: ServedResource, object: JsonObject, name: string, value: unknown): Error {
  const why = `json: cannot unmarshal ${jsonType(value, "string")} into Go struct field .${name} of type string`;
  return unrecognized(kind, `couldn't get version/kind; json parse error: ${why}`, bodySummary(JSON.stringify(object)));
}

function wrongVersion(given: unknown, expected: string): Error {
  return badRequest(`the API version in the data (${String(given)}) does not match the expected API version (${expected})`);
}

function wrongKind({ group, kind: expected }: ServedResource, object: JsonObject, kind: unknown): Error {
  return invalid({ group, kind: String(kind) }, nameOf(object), [invalidCause("kind", kind, `must be ${expected}`)]);
}

/** Versions of kinds that Kubernetes still decodes, though it does not serve them. */
const formerVersions: ReadonlySet<string> = new Set(["apiextensions.k8s.io/v1beta1/CustomResourceDefinition"]);

/** Go decodes a body as the type that it names, and then converts it to the internal type of the resource. */
function requireBuiltInType(resource: ServedResource, object: JsonObject): void {
  const expected = apiVersionOf(resource);
  const apiVersion = String(object["apiVersion"] ?? "") || expected;
  const kind = String(object["kind"] ?? "") || resource.kind;
  if (kind === resource.kind && apiVersion === expected) return;
  if (apiVersion.split("/").length > 2) {
    throw unrecognized(resource.kind, `unexpected GroupVersion string: ${apiVersion}`, bodySummary(JSON.stringify(object)));
  }
  const { group, version } = parseApiVersion(apiVersion);
  // The internal type is shared with versions that are no longer served.
  const isEarlier = group === resource.group && kind === resource.kind && formerVersions.has(`${apiVersion}/${kind}`);
  if (isEarlier) throw wrongVersion(apiVersion, expected);
  const prefix = `${kind} in version ${JSON.stringify(version)} cannot be handled as a ${resource.kind}`;
  if (definitionNameOfKind(group, version, kind) === undefined) {
    const scheme = '"pkg/runtime/scheme.go:111"';
    throw badRequest(
      `${prefix}: no kind ${JSON.stringify(kind)} is registered for version ${JSON.stringify(apiVersion)} in scheme ${scheme}`,
    );
  }
  const internal = internalType(resource.group, resource.kind);
  if (internalType(group, kind) === internal) throw wrongVersion(apiVersion, expected);
  throw badRequest(`${prefix}: converting (${version}.${kind}) to (${internal}): unknown conversion`);
}

/** The internal type that all versions of a kind share. */
function internalType(group: string, kind: string): string {
  const isCore = group === "" || (group === "events.k8s.io" && kind === "Event");
  return `${isCore ? "core" : group.split(".", 1)[0]}.${kind}`;
}

function nameOf(object: JsonObject): string {
  const metadata = object["metadata"];
  return isJsonObject(metadata) && typeof metadata["name"] === "string" ? metadata["name"] : "";
}

/** Like {@link requireNames}, for the result of a patch or apply, whose namespace kube-apiserver does not name. */
export function requirePatchedNames(object: KubernetesObject, name: string, namespace: string): void {
  const { namespace: given } = object.metadata;
  requireNames({ ...object, metadata: { ...object.metadata, namespace } }, name, namespace);
  if (namespace === "" || !given || given === namespace) return;
  throw badRequest("the namespace of the provided object does not match the namespace sent on the request");
}

/** Checks that the body of a write names the object in the URL, with kube-apiserver's three messages. */
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
