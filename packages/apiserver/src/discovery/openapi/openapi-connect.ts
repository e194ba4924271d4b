import type { ServedResource } from "../../registry/served-resource.ts";
import type { subresourcesOf } from "../resource-groups.ts";
import type { DefinitionSet } from "./openapi-definitions.ts";
import { pascal, pathParameterNames, prefixOf, scopeOf, tagOf } from "./openapi-names.ts";
import { operationOf, pathItemParameters } from "./openapi-operations.ts";
import type { Json } from "./openapi-types.ts";

type Subresource = ReturnType<typeof subresourcesOf>[number];

/** Query parameters by kind of options. Connections take their options in the query. */
const connectParameters: Readonly<Record<string, readonly string[]>> = {
  NodeProxyOptions: ["path"],
  PodAttachOptions: ["container", "stderr", "stdin", "stdout", "tty"],
  PodExecOptions: ["command", "container", "stderr", "stdin", "stdout", "tty"],
  PodPortForwardOptions: ["ports"],
  PodProxyOptions: ["path"],
  ServiceProxyOptions: ["path"],
};

const proxyMethods = ["delete", "get", "head", "options", "patch", "post", "put"];
const streamMethods = ["get", "post"];

/** Whether requests to a subresource are connections, such as exec and proxy, whose bodies are not API objects. */
export function isConnect({ kind }: Subresource): boolean {
  return Object.hasOwn(connectParameters, kind);
}

/** Describes the connections to a subresource. */
export function connectPath(set: DefinitionSet, resource: ServedResource, subresource: Subresource): Json {
  return describeConnect(set, resource, subresource, false);
}

/** Describes the connections to the paths below a proxy subresource. */
export function connectPathBelow(set: DefinitionSet, resource: ServedResource, subresource: Subresource): Json {
  return describeConnect(set, resource, subresource, true);
}

function describeConnect(set: DefinitionSet, resource: ServedResource, subresource: Subresource, isBelow: boolean): Json {
  const { name, group, version, kind } = subresource;
  const methods = name === "proxy" ? proxyMethods : streamMethods;
  const target = `${scopeOf(resource)}${resource.kind}${pascal(name)}${isBelow ? "WithPath" : ""}`;
  const operations = methods.map((method) => [
    method,
    operationOf(set, {
      id: `connect${prefixOf(resource)}${pascal(method)}${target}`,
      origin: resource.origin,
      action: "connect",
      tag: tagOf(resource),
      type: { group, kind, version },
      answer: { type: "string" },
      produces: ["*/*"],
    }),
  ]);
  const path = [...pathParameterNames(resource.scope, true), ...(isBelow ? ["path"] : [])];
  const query = connectParameters[kind] ?? [];
  return { ...Object.fromEntries(operations), ...pathItemParameters(set, { path, query, isPretty: false }) };
}
