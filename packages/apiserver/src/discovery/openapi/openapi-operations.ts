import type { ServedResource } from "../../registry/served-resource.ts";
import { addDefinition, type DefinitionSet, reference } from "./openapi-definitions.ts";
import type { Json } from "./openapi-types.ts";

/** Query parameters of creates and updates. */
export const writeParameters: readonly string[] = ["dryRun", "fieldManager", "fieldValidation"];

/** Query parameters of patches. */
export const patchParameters: readonly string[] = [...writeParameters, "force"];

/** Query parameters of lists and watches. */
export const listParameters: readonly string[] = [
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

/** Query parameters of deletes. The same options can be sent in the body. */
export const deleteParameters: readonly string[] = [
  "dryRun",
  "gracePeriodSeconds",
  "ignoreStoreReadErrorWithClusterBreakingPotential",
  "orphanDependents",
  "propagationPolicy",
];

/** Query parameters of the deletion of a collection: those of a delete, and those of a list that select objects. */
export const deleteCollectionParameters: readonly string[] = [
  ...deleteParameters,
  ...listParameters.filter((name) => name !== "allowWatchBookmarks" && name !== "watch"),
].sort();

/** Query parameters of the read of a custom object. kube-apiserver does not list them for built-in kinds. */
export const customReadParameters: readonly string[] = ["resourceVersion"];

/** Query parameters of the log of a Pod. */
export const logParameters: readonly string[] = [
  "container",
  "follow",
  "insecureSkipTLSVerifyBackend",
  "limitBytes",
  "previous",
  "sinceSeconds",
  "stream",
  "tailLines",
  "timestamps",
];

const parameterTypes: Readonly<Record<string, string>> = {
  allowWatchBookmarks: "boolean",
  follow: "boolean",
  force: "boolean",
  gracePeriodSeconds: "integer",
  ignoreStoreReadErrorWithClusterBreakingPotential: "boolean",
  insecureSkipTLSVerifyBackend: "boolean",
  limit: "integer",
  limitBytes: "integer",
  orphanDependents: "boolean",
  ports: "integer",
  previous: "boolean",
  sendInitialEvents: "boolean",
  sinceSeconds: "integer",
  stderr: "boolean",
  stdin: "boolean",
  stdout: "boolean",
  tailLines: "integer",
  timeoutSeconds: "integer",
  timestamps: "boolean",
  tty: "boolean",
  watch: "boolean",
};

/** An operation on a resource. `body` is the schema of the request, if it has one. */
interface Operation {
  readonly id: string;
  readonly origin: ServedResource["origin"];
  /** `x-kubernetes-action`: `get`, `list`, `post`, `put`, `patch`, `delete`, `deletecollection` or `connect`. */
  readonly action: string;
  readonly tag: string;
  readonly type: object;
  readonly answer: Json;
  readonly body?: Json | undefined;
  readonly query?: readonly string[];
  /** Media types of the responses. Default: those of the action. */
  readonly produces?: readonly string[];
}

/** Describes an operation in the version of the set. */
export function operationOf(set: DefinitionSet, operation: Operation): Json {
  const { id, action, tag, type, query = [] } = operation;
  const body = action === "patch" ? reference(set.version, addDefinition(set, "meta.v1.Patch")) : operation.body;
  const isRequired = !action.startsWith("delete");
  const parameters = query.map((name) => parameter(set, name, "query"));
  const common = { tags: [tag], operationId: id };
  const extensions = { "x-kubernetes-action": action, "x-kubernetes-group-version-kind": type };
  const responses = responsesOf(set, operation);
  if (set.version === "v3") {
    const requestBody = { ...(isRequired ? { required: true } : {}), content: content(consumedTypes(operation), body ?? {}) };
    return { ...common, ...listed(parameters), ...(body === undefined ? {} : { requestBody }), responses, ...extensions };
  }
  const bodyParameter = { name: "body", in: "body", ...(isRequired ? { required: true } : {}), schema: body };
  return {
    ...common,
    schemes: ["https"],
    consumes: consumedTypes(operation),
    produces: producedTypes(operation),
    ...listed([...(body === undefined ? [] : [bodyParameter]), ...parameters]),
    responses,
    ...extensions,
  };
}

/** Like kube-apiserver, an operation without its own parameters has no list of them. */
function listed(parameters: readonly Json[]): Json {
  return parameters.length === 0 ? {} : { parameters };
}

/** Describes the read of a document of a path without a resource. */
export function documentOperation(
  set: DefinitionSet,
  operation: {
    readonly id: string;
    readonly tag: string;
    readonly answer: Json;
    readonly produces: readonly string[];
    readonly consumes?: readonly string[] | undefined;
  },
): Json {
  const { id, tag, answer, produces, consumes } = operation;
  const schema = set.version === "v2" ? { schema: answer } : { content: content(produces, answer) };
  const responses = { 200: { description: "OK", ...schema }, 401: { description: "Unauthorized" } };
  if (set.version === "v3") return { tags: [tag], operationId: id, responses };
  return {
    schemes: ["https"],
    tags: [tag],
    operationId: id,
    produces,
    ...(consumes === undefined ? {} : { consumes }),
    responses,
  };
}

/** Clients decode only the responses listed here. 401 has no schema. */
function responsesOf(set: DefinitionSet, operation: Operation): Json {
  const { answer } = operation;
  const schema = set.version === "v2" ? { schema: answer } : { content: content(producedTypes(operation), answer) };
  const responses: Json = { 200: { description: "OK", ...schema } };
  for (const [status, description] of otherResponsesOf(operation)) responses[status] = { description, ...schema };
  return { ...responses, 401: { description: "Unauthorized" } };
}

/** Like kube-apiserver, a patch of a custom object lists no creation, although apply can create it. */
function otherResponsesOf({ action, origin }: Operation): readonly (readonly [string, string])[] {
  return action === "patch" && origin !== "builtin" ? [] : (otherResponses[action] ?? []);
}

const created = ["201", "Created"] as const;
const accepted = ["202", "Accepted"] as const;

/** Responses with the answer in addition to 200, by action. */
const otherResponses: Readonly<Record<string, readonly (readonly [string, string])[]>> = {
  delete: [accepted],
  patch: [created],
  post: [created, accepted],
  put: [created],
};

/** kubectl decides by the types of a patch whether `apply` uses strategic merge patches, which custom kinds do not support. */
function consumedTypes({ action, origin }: Operation): readonly string[] {
  const isBuiltin = origin === "builtin";
  if (action !== "patch") return isBuiltin ? ["*/*"] : ["application/json", "application/yaml"];
  const strategic = isBuiltin ? ["application/strategic-merge-patch+json"] : [];
  return ["application/json-patch+json", "application/merge-patch+json", ...strategic, "application/apply-patch+yaml"];
}

function producedTypes({ action, origin, produces }: Operation): readonly string[] {
  if (produces !== undefined) return produces;
  if (origin !== "builtin") return ["application/json", "application/yaml"];
  return action === "list" ? [...builtinTypes, ...watchTypes] : builtinTypes;
}

/** Media types of built-in kinds. */
export const builtinTypes: readonly string[] = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

/** Further media types of lists, which may be watches. */
export const watchTypes: readonly string[] = [
  "application/json;stream=watch",
  "application/vnd.kubernetes.protobuf;stream=watch",
];

function content(types: readonly string[], schema: Json): Json {
  return Object.fromEntries(types.map((type) => [type, { schema }]));
}

/** The parameters of all operations of a path, with `pretty` unless `isPretty` is false. */
export function pathItemParameters(
  set: DefinitionSet,
  options: { readonly path?: readonly string[]; readonly query?: readonly string[]; readonly isPretty?: boolean },
): Json {
  const { path = [], query = [], isPretty = true } = options;
  const parameters = [
    ...path.map((name) => ({ name, location: "path" as const })),
    ...[...query, ...(isPretty ? ["pretty"] : [])].map((name) => ({ name, location: "query" as const })),
  ].sort((a, b) => (a.name < b.name ? -1 : Number(a.name > b.name)));
  return { parameters: parameters.map(({ name, location }) => parameter(set, name, location)) };
}

function parameter(set: DefinitionSet, name: string, location: "query" | "path"): Json {
  const type = parameterTypes[name] ?? "string";
  const base = { name, in: location, ...(location === "path" ? { required: true } : {}) };
  return set.version === "v2" ? { ...base, type, uniqueItems: true } : { ...base, schema: { type, uniqueItems: true } };
}
