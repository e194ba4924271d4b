import { isJsonObject, type JsonObject, statusError } from "@keelson/api-machinery";
import { aggregatedMediaType } from "../discovery/aggregated-discovery.ts";
import { listAt, textAt, valueAt } from "../registry/object-fields.ts";
import type { RemoteApi } from "./api-service.ts";
import type { ServiceResponse } from "./service-request.ts";

/** Discovery and OpenAPI documents of one remote group version. */
export interface RemoteDocuments {
  /** apidiscovery.k8s.io/v2 APIVersionDiscovery, without freshness. */
  readonly discovery: JsonObject;
  /** The path and query of the OpenAPI v3 document, below `/openapi/v3/`; undefined if there is none. */
  readonly openApiV3: string | undefined;
  /** Paths and definitions of the OpenAPI v2 document. */
  readonly openApiV2: { readonly paths: JsonObject; readonly definitions: JsonObject } | undefined;
}

/** Reads a document of an extension API server. */
export type FetchDocument = (path: string, accept: string) => Promise<ServiceResponse>;

/**
 * Reads what an extension API server says about a group version. `known` is the previous result, whose large documents are kept as long
 * as discovery is the same. Rejects if discovery cannot be read; OpenAPI is optional.
 */
export async function readRemoteDocuments(
  api: RemoteApi,
  fetch: FetchDocument,
  known: RemoteDocuments | undefined,
): Promise<RemoteDocuments> {
  const discovery = (await aggregatedVersion(api, fetch)) ?? (await plainVersion(api, fetch));
  const isSame = known !== undefined && JSON.stringify(known.discovery) === JSON.stringify(discovery);
  if (isSame && known.openApiV3 !== undefined && known.openApiV2 !== undefined) return known;
  const index = await optional(fetch, "/openapi/v3");
  const openApiV3 = textAt(index, "paths", `apis/${api.group}/${api.version}`, "serverRelativeURL");
  const openApiV2 = await optional(fetch, "/openapi/v2");
  if (isSame && openApiV3 === "" && openApiV2 === undefined) return known;
  return {
    discovery,
    openApiV3: /^\/openapi\/v3\/[\x21-\x7e]*$/.test(openApiV3) ? openApiV3 : undefined,
    openApiV2: openApiV2 && ownPart(api, openApiV2),
  };
}

const json = "application/json";

async function aggregatedVersion(api: RemoteApi, fetch: FetchDocument): Promise<JsonObject | undefined> {
  const document = await optional(fetch, "/apis", `${aggregatedMediaType},${json};q=0.9`);
  if (textAt(document, "kind") !== "APIGroupDiscoveryList") return undefined;
  const group = listAt(document, "items").find((each) => textAt(each, "metadata", "name") === api.group);
  const version = listAt(group, "versions").find((each) => textAt(each, "version") === api.version);
  return isJsonObject(version) ? { version: api.version, resources: version["resources"] ?? [] } : undefined;
}

/** Converts an APIResourceList. */
async function plainVersion(api: RemoteApi, fetch: FetchDocument): Promise<JsonObject> {
  const path = `/apis/${api.group}/${api.version}`;
  const { status, body } = await fetch(path, json);
  if (status !== 200) throw statusError("ServiceUnavailable", `discovery of ${path} failed with HTTP status ${status}`);
  const list: unknown = JSON.parse(body.toString());
  const all = listAt(list, "resources").filter(isJsonObject);
  const resources = all.filter((each) => !textAt(each, "name").includes("/")).map((each) => resourceDiscovery(api, each, all));
  return { version: api.version, resources };
}

function resourceDiscovery(api: RemoteApi, resource: JsonObject, all: readonly JsonObject[]): JsonObject {
  const name = textAt(resource, "name");
  const subresources = all
    .filter((each) => textAt(each, "name").startsWith(`${name}/`))
    .map((each) => ({
      subresource: textAt(each, "name").slice(name.length + 1),
      responseKind: responseKind(api, each),
      verbs: each["verbs"] ?? [],
    }));
  return {
    resource: name,
    responseKind: responseKind(api, resource),
    scope: resource["namespaced"] === true ? "Namespaced" : "Cluster",
    singularResource: textAt(resource, "singularName"),
    verbs: resource["verbs"] ?? [],
    ...(resource["shortNames"] === undefined ? {} : { shortNames: resource["shortNames"] }),
    ...(resource["categories"] === undefined ? {} : { categories: resource["categories"] }),
    ...(subresources.length === 0 ? {} : { subresources }),
  };
}

function responseKind(api: RemoteApi, resource: JsonObject): JsonObject {
  const [group, version] = [textAt(resource, "group") || api.group, textAt(resource, "version") || api.version];
  return { group, version, kind: textAt(resource, "kind") };
}

/** The paths of the group version and all definitions. */
function ownPart(api: RemoteApi, document: JsonObject): NonNullable<RemoteDocuments["openApiV2"]> {
  const prefix = `/apis/${api.group}/${api.version}/`;
  const paths = Object.entries(valueAt(document, "paths") ?? {}).filter(([path]) => `${path}/`.startsWith(prefix));
  const definitions = valueAt(document, "definitions");
  return { paths: Object.fromEntries(paths), definitions: isJsonObject(definitions) ? definitions : {} };
}

async function optional(fetch: FetchDocument, path: string, accept = json): Promise<JsonObject | undefined> {
  try {
    const { status, body } = await fetch(path, accept);
    const value: unknown = status === 200 ? JSON.parse(body.toString()) : undefined;
    return isJsonObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
