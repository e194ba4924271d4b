import { definitionNames } from "../../registry/builtin/definition.ts";
import type { ServedResource } from "../../registry/served-resource.ts";
import { addDefinition, definitionName, type DefinitionSet, reference } from "./openapi-definitions.ts";
import { subresourcesOf } from "../resource-groups.ts";

type Json = Record<string, unknown>;

/** The OpenAPI paths of a resource. Clients read the kind and the parameters of each path. */
export function resourcePaths(set: DefinitionSet, resource: ServedResource): Json {
  const { group, version, plural, verbs, scope } = resource;
  const root = group === "" ? `/api/${version}` : `/apis/${group}/${version}`;
  const collection = scope === "Namespaced" ? `${root}/namespaces/{namespace}/${plural}` : `${root}/${plural}`;
  const paths: Json = { [collection]: collectionPath(set, resource) };
  if (verbs.includes("get")) paths[`${collection}/{name}`] = objectPath(set, resource);
  if (scope === "Namespaced" && verbs.includes("list")) {
    const { list, operation } = describer(set, resource);
    paths[`${root}/${plural}`] = { get: operation("list", "listForAllNamespaces", list, { query: listParameters }) };
  }
  for (const subresource of subresourcesOf(resource)) {
    paths[`${collection}/{name}/${subresource.name}`] = subresourcePath(set, resource, subresource);
  }
  return paths;
}

/** Describes the operations of a resource. `body` refers to its schema, `list` to that of its list. */
function describer(set: DefinitionSet, resource: ServedResource) {
  const { group, version, kind, origin } = resource;
  const body = reference(set.version, definitionName(resource));
  return {
    body,
    list: reference(set.version, definitionName(resource, "List")),
    operation: (
      action: string,
      method: string,
      answer: Json,
      options: { query?: readonly string[]; hasBody?: boolean } = {},
    ): Json =>
      operationOf(set, {
        id: `${method}${pascal(group)}${pascal(version)}${kind}`,
        origin,
        action,
        type: { group, kind, version },
        answer,
        body,
        ...options,
      }),
  };
}

function collectionPath(set: DefinitionSet, resource: ServedResource): Json {
  const { verbs, scope } = resource;
  const { body, list, operation } = describer(set, resource);
  const status = reference(set.version, addDefinition(set, "meta.v1.Status"));
  return {
    ...(verbs.includes("list") ? { get: operation("list", "list", list, { query: listParameters }) } : {}),
    ...(verbs.includes("create") ? { post: operation("post", "create", body, { query: writeParameters, hasBody: true }) } : {}),
    ...(verbs.includes("deletecollection")
      ? { delete: operation("deletecollection", "deleteCollection", status, { query: listParameters }) }
      : {}),
    ...pathParameters(set, scope, false),
  };
}

function objectPath(set: DefinitionSet, resource: ServedResource): Json {
  const { verbs, scope } = resource;
  const { body, operation } = describer(set, resource);
  const status = reference(set.version, addDefinition(set, "meta.v1.Status"));
  return {
    get: operation("get", "read", body),
    ...(verbs.includes("update") ? { put: operation("put", "replace", body, { query: writeParameters, hasBody: true }) } : {}),
    ...(verbs.includes("patch")
      ? { patch: operation("patch", "patch", body, { query: [...writeParameters, "force"], hasBody: true }) }
      : {}),
    ...(verbs.includes("delete") ? { delete: operation("delete", "delete", status, { query: deleteParameters }) } : {}),
    ...pathParameters(set, scope, true),
  };
}

function subresourcePath(
  set: DefinitionSet,
  resource: ServedResource,
  subresource: ReturnType<typeof subresourcesOf>[number],
): Json {
  const { group, version, kind, origin, scope } = resource;
  const { verbs } = subresource;
  const own = { group: subresource.group, kind: subresource.kind, version: subresource.version };
  const answer = reference(set.version, subresourceDefinition(set, resource, own));
  const describe = (action: string, method: string, query: readonly string[], hasBody: boolean): Json =>
    operationOf(set, {
      id: `${method}${pascal(group)}${pascal(version)}${kind}${pascal(subresource.name)}`,
      origin,
      action,
      type: own,
      answer,
      body: answer,
      query,
      hasBody,
    });
  return {
    ...(verbs.includes("get") ? { get: describe("get", "read", [], false) } : {}),
    ...(verbs.includes("create") ? { post: describe("post", "create", writeParameters, true) } : {}),
    ...(verbs.includes("update") ? { put: describe("put", "replace", writeParameters, true) } : {}),
    ...(verbs.includes("patch") ? { patch: describe("patch", "patch", [...writeParameters, "force"], true) } : {}),
    ...pathParameters(set, scope, true),
  };
}

/** The schema name of a subresource's kind. Adds it unless it is the resource's own. */
function subresourceDefinition(
  set: DefinitionSet,
  resource: ServedResource,
  type: { readonly group: string; readonly version: string; readonly kind: string },
): string {
  if (type.group === resource.group && type.version === resource.version && type.kind === resource.kind)
    return definitionName(resource);
  const name = `${type.group.split(".")[0] || "core"}.${type.version}.${type.kind}`;
  // Options sent in the query (PodExecOptions) have no schema.
  return definitionNames().includes(name) ? addDefinition(set, name) : definitionName(resource);
}

const writeParameters = ["dryRun", "fieldManager", "fieldValidation"];
const listParameters = [
  "allowWatchBookmarks",
  "continue",
  "fieldSelector",
  "labelSelector",
  "limit",
  "resourceVersion",
  "resourceVersionMatch",
  "sendInitialEvents",
  "timeoutSeconds",
  "watch",
];
const deleteParameters = ["dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy"];
const parameterTypes: Readonly<Record<string, string>> = {
  allowWatchBookmarks: "boolean",
  force: "boolean",
  gracePeriodSeconds: "integer",
  limit: "integer",
  orphanDependents: "boolean",
  sendInitialEvents: "boolean",
  timeoutSeconds: "integer",
  watch: "boolean",
};

/** kubectl decides by these types whether `apply` uses strategic merge patches, which custom kinds do not support. */
function patchTypesOf(origin: ServedResource["origin"]): readonly string[] {
  const types = ["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];
  return origin === "builtin" ? [...types, "application/strategic-merge-patch+json"] : types;
}

interface Operation {
  readonly id: string;
  readonly origin: ServedResource["origin"];
  readonly action: string;
  readonly type: object;
  readonly answer: Json;
  readonly body: Json;
  readonly query?: readonly string[];
  readonly hasBody?: boolean;
}

function operationOf(set: DefinitionSet, operation: Operation): Json {
  const { id, action, type, answer, query = [], hasBody = false } = operation;
  const isPatch = action === "patch";
  const body = isPatch ? reference(set.version, addDefinition(set, "meta.v1.Patch")) : operation.body;
  const types = isPatch ? patchTypesOf(operation.origin) : ["application/json", "application/yaml"];
  const parameters = query.map((name) => parameter(set, name, "query"));
  const status = action === "post" ? "201" : "200";
  if (set.version === "v2") {
    return {
      operationId: id,
      ...(isPatch ? { consumes: types } : {}),
      parameters: [...(hasBody ? [{ name: "body", in: "body", required: true, schema: body }] : []), ...parameters],
      responses: { [status]: { description: "OK", schema: answer } },
      "x-kubernetes-action": action,
      "x-kubernetes-group-version-kind": type,
    };
  }
  return {
    operationId: id,
    parameters,
    ...(hasBody ? { requestBody: { required: true, content: content(types, body) } } : {}),
    responses: { [status]: { description: "OK", content: content(["application/json", "application/yaml"], answer) } },
    "x-kubernetes-action": action,
    "x-kubernetes-group-version-kind": type,
  };
}

function content(types: readonly string[], schema: Json): Json {
  return Object.fromEntries(types.map((type) => [type, { schema }]));
}

function parameter(set: DefinitionSet, name: string, location: "query" | "path"): Json {
  const schema = { type: parameterTypes[name] ?? "string", uniqueItems: true };
  const base = { name, in: location, ...(location === "path" ? { required: true } : {}) };
  return set.version === "v2" ? { ...base, ...schema } : { ...base, schema };
}

function pathParameters(set: DefinitionSet, scope: ServedResource["scope"], isNamed: boolean): Json {
  const names = [...(isNamed ? ["name"] : []), ...(scope === "Namespaced" ? ["namespace"] : [])];
  return names.length === 0 ? {} : { parameters: names.map((name) => parameter(set, name, "path")) };
}

/** Converts `rbac.authorization.k8s.io` to `RbacAuthorizationK8sIo`, and the core group to `Core`. */
function pascal(text: string): string {
  return (text || "core").replaceAll(/(?:^|[.\-_])([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}
