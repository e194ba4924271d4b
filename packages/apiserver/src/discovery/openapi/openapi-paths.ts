import { showsDeletedObject } from "../../endpoints/write/update-rules.ts";
import { definitionNames } from "../../registry/builtin/definition.ts";
import type { ServedResource } from "../../registry/served-resource.ts";
import { addDefinition, definitionName, type DefinitionSet, reference } from "./openapi-definitions.ts";
import { connectPath, connectPathBelow, isConnect } from "./openapi-connect.ts";
import { pascal, pathParameterNames, prefixOf, scopeOf, tagOf } from "./openapi-names.ts";
import {
  builtinTypes,
  customReadParameters,
  deleteCollectionParameters,
  deleteParameters,
  listParameters,
  logParameters,
  operationOf,
  patchParameters,
  pathItemParameters,
  writeParameters,
} from "./openapi-operations.ts";
import type { Json } from "./openapi-types.ts";
import { watchPaths } from "./watch-paths.ts";
import { subresourcesOf } from "../resource-groups.ts";

/** The OpenAPI paths of a resource. Clients read the kind and the parameters of each path. */
export function resourcePaths(set: DefinitionSet, resource: ServedResource): Json {
  const { group, version, plural, verbs, scope } = resource;
  const root = group === "" ? `/api/${version}` : `/apis/${group}/${version}`;
  const collection = scope === "Namespaced" ? `${root}/namespaces/{namespace}/${plural}` : `${root}/${plural}`;
  const paths: Json = { [collection]: collectionPath(set, resource) };
  if (verbs.includes("get")) paths[`${collection}/{name}`] = objectPath(set, resource);
  if (scope === "Namespaced" && verbs.includes("list")) {
    const { list, operation } = describer(set, resource);
    paths[`${root}/${plural}`] = {
      get: operation("list", `list${prefixOf(resource)}${resource.kind}ForAllNamespaces`, list),
      ...pathItemParameters(set, { query: listParameters }),
    };
  }
  if (resource.origin === "builtin" && verbs.includes("watch")) Object.assign(paths, watchPaths(set, resource, root));
  for (const subresource of subresourcesOf(resource)) {
    const path = `${collection}/{name}/${subresource.name}`;
    if (isConnect(subresource)) {
      paths[path] = connectPath(set, resource, subresource);
      if (subresource.name === "proxy") paths[`${path}/{path}`] = connectPathBelow(set, resource, subresource);
    } else paths[path] = subresourcePath(set, resource, subresource);
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
      id: string,
      answer: Json,
      options: { query?: readonly string[]; body?: Json; produces?: readonly string[] } = {},
    ): Json =>
      operationOf(set, { id, origin, action, tag: tagOf(resource), type: { group, kind, version }, answer, ...options }),
  };
}

function collectionPath(set: DefinitionSet, resource: ServedResource): Json {
  const { verbs, scope } = resource;
  const { body, list, operation } = describer(set, resource);
  const prefix = prefixOf(resource);
  const name = `${scopeOf(resource)}${resource.kind}`;
  const isOnlyWritten = isWriteOnly(verbs);
  const deletion = (): Json => {
    const status = reference(set.version, addDefinition(set, "meta.v1.Status"));
    // kube-apiserver lists only the options of a list for the deletion of custom objects.
    const isBuiltin = resource.origin === "builtin";
    const options = isBuiltin ? { query: deleteCollectionParameters, body: deleteOptions(set) } : { query: listParameters };
    return operation("deletecollection", `delete${prefix}Collection${name}`, status, options);
  };
  return {
    ...(verbs.includes("list") ? { get: operation("list", `list${prefix}${name}`, list, { query: listParameters }) } : {}),
    ...(verbs.includes("create")
      ? { post: operation("post", `create${prefix}${name}`, body, { query: isOnlyWritten ? [] : writeParameters, body }) }
      : {}),
    ...(verbs.includes("deletecollection") ? { delete: deletion() } : {}),
    ...pathItemParameters(set, { path: pathParameterNames(scope, false), query: isOnlyWritten ? writeParameters : [] }),
  };
}

function objectPath(set: DefinitionSet, resource: ServedResource): Json {
  const { verbs, scope } = resource;
  const { body, operation } = describer(set, resource);
  const deletion = (): Json => {
    // The deletion of a Namespace returns the Namespace, but kube-apiserver describes a Status.
    const showsObject = showsDeletedObject(resource) && resource.plural !== "namespaces";
    const deleted = showsObject ? body : reference(set.version, addDefinition(set, "meta.v1.Status"));
    return operation("delete", `delete${name}`, deleted, { query: deleteParameters, body: deleteOptions(set) });
  };
  const name = `${prefixOf(resource)}${scopeOf(resource)}${resource.kind}`;
  return {
    get: operation("get", `read${name}`, body, { query: readParameters(resource) }),
    ...(verbs.includes("update") ? { put: operation("put", `replace${name}`, body, { query: writeParameters, body }) } : {}),
    ...(verbs.includes("patch") ? { patch: operation("patch", `patch${name}`, body, { query: patchParameters, body }) } : {}),
    ...(verbs.includes("delete") ? { delete: deletion() } : {}),
    ...pathItemParameters(set, { path: pathParameterNames(scope, true) }),
  };
}

function deleteOptions(set: DefinitionSet): Json {
  return reference(set.version, addDefinition(set, "meta.v1.DeleteOptions"));
}

function subresourcePath(
  set: DefinitionSet,
  resource: ServedResource,
  subresource: ReturnType<typeof subresourcesOf>[number],
): Json {
  const { kind, origin, scope } = resource;
  const { verbs } = subresource;
  const own = { group: subresource.group, kind: subresource.kind, version: subresource.version };
  if (subresource.name === "log") return logPath(set, resource);
  const answer = reference(set.version, subresourceDefinition(set, resource, own));
  // Operations on the scale of a custom object have the object's kind.
  const type = origin === "builtin" ? own : { group: resource.group, kind, version: resource.version };
  const name = `${prefixOf(resource)}${scopeOf(resource)}${kind}${pascal(subresource.name)}`;
  const describe = (action: string, method: string, query: readonly string[] = [], body?: Json): Json =>
    operationOf(set, { id: `${method}${name}`, origin, action, tag: tagOf(resource), type, answer, query, body });
  const isOnlyWritten = isWriteOnly(verbs);
  return {
    ...(verbs.includes("get") ? { get: describe("get", "read", readParameters(resource)) } : {}),
    ...(verbs.includes("create") ? { post: describe("post", "create", isOnlyWritten ? [] : writeParameters, answer) } : {}),
    ...(verbs.includes("update") ? { put: describe("put", "replace", isOnlyWritten ? [] : writeParameters, answer) } : {}),
    ...(verbs.includes("patch") ? { patch: describe("patch", "patch", patchParameters, answer) } : {}),
    ...pathItemParameters(set, { path: pathParameterNames(scope, true), query: isOnlyWritten ? writeParameters : [] }),
  };
}

/** The log of a Pod is text. Its options belong to the path. */
function logPath(set: DefinitionSet, resource: ServedResource): Json {
  const { operation } = describer(set, resource);
  const name = `${prefixOf(resource)}${scopeOf(resource)}${resource.kind}`;
  return {
    get: operation("get", `read${name}Log`, { type: "string" }, { produces: ["text/plain", ...builtinTypes] }),
    ...pathItemParameters(set, { path: pathParameterNames(resource.scope, true), query: logParameters }),
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
  return definitionNames().includes(name) ? addDefinition(set, name) : definitionName(resource);
}

function readParameters({ origin }: ServedResource): readonly string[] {
  return origin === "builtin" ? [] : customReadParameters;
}

/** Whether a path has only a create or an update. Like kube-apiserver, such a path lists the parameters instead of its operation. */
function isWriteOnly(verbs: readonly string[]): boolean {
  return verbs.length === 1 && (verbs[0] === "create" || verbs[0] === "update");
}
