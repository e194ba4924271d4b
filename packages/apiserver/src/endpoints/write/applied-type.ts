import { apiVersionOf, isJsonObject, type JsonObject, parseApiVersion } from "@keelson/api-machinery";
import { unclassifiedError } from "@keelson/api-machinery/validation";
import type { ServedResource } from "../../registry/served-resource.ts";
import { badRequest } from "../errors.ts";
import { jsonType } from "../object/decode-error.ts";

/** Go writes a group, version and kind as `/v1, Kind=ConfigMap` if the group is empty. */
function shownType(apiVersion: string, kind: string): string {
  const { group, version } = parseApiVersion(apiVersion);
  return `${group}/${version}, Kind=${kind}`;
}

const textOf = (value: unknown): string => (typeof value === "string" ? value : "");

const texts = ["name", "generateName", "namespace", "uid", "resourceVersion", "selfLink"];
const integers = ["generation", "deletionGracePeriodSeconds"];

/**
 * Checks the type of an applied configuration and of its metadata before its names are compared to the URL, with kube-apiserver's
 * errors. Throws `BadRequest` for another kind or version, and an error without a reason (500) for metadata of the wrong type.
 */
export function requireAppliedType(resource: ServedResource, body: unknown): void {
  if (!isJsonObject(body) && body !== undefined && body !== null) {
    const fault = `json: cannot unmarshal ${jsonType(body, "map")} into Go value of type map[string]interface {}`;
    throw badRequest(`error decoding YAML: error unmarshaling JSON: while decoding JSON: ${fault}`);
  }
  const object: JsonObject = isJsonObject(body) ? body : {};
  const type = shownType(textOf(object["apiVersion"]), textOf(object["kind"]));
  if (type !== shownType(apiVersionOf(resource), resource.kind)) throw badRequest(`invalid object type: ${type}`);
  const fault = metadataFault(object["metadata"]);
  if (fault === undefined) return;
  const metadata = isJsonObject(object["metadata"]) ? object["metadata"] : {};
  const name = `${textOf(metadata["namespace"])}/${textOf(metadata["name"])}`;
  throw unclassifiedError(`failed to create typed patch object (${name}; ${type}): ${fault}`);
}

function metadataFault(metadata: unknown): string | undefined {
  if (metadata === undefined || metadata === null) return undefined;
  if (!isJsonObject(metadata)) return `.metadata: expected map, got &{${String(metadata)}}`;
  const wrongText = texts.find((name) => isWrong(metadata[name], "string"));
  if (wrongText !== undefined) {
    return `.metadata.${wrongText}: expected string, got &value.valueUnstructured{Value:${String(metadata[wrongText])}}`;
  }
  const wrongInteger = integers.find((name) => isWrong(metadata[name], "number"));
  if (wrongInteger === undefined) return undefined;
  return `.metadata.${wrongInteger}: expected numeric (int or float), got ${typeof metadata[wrongInteger]}`;
}

function isWrong(value: unknown, type: "string" | "number"): boolean {
  return value !== undefined && value !== null && typeof value !== type;
}
