import type { ServedResource } from "../../registry/served-resource.ts";
import { addDefinition, type DefinitionSet, reference } from "./openapi-definitions.ts";
import { pathParameterNames, prefixOf, scopeOf, tagOf } from "./openapi-names.ts";
import { builtinTypes, listParameters, operationOf, pathItemParameters, watchTypes } from "./openapi-operations.ts";
import type { Json } from "./openapi-types.ts";

/** The deprecated paths of watches: `/api/v1/watch/...`. `root` is the path of the group version. */
export function watchPaths(set: DefinitionSet, resource: ServedResource, root: string): Json {
  const { group, version, kind, plural, scope, origin } = resource;
  const isNamespaced = scope === "Namespaced";
  const collection = `${root}/watch${isNamespaced ? "/namespaces/{namespace}" : ""}/${plural}`;
  const answer = reference(set.version, addDefinition(set, "meta.v1.WatchEvent"));
  const path = (name: string, action: "watch" | "watchlist", parameters: readonly string[]): Json => ({
    get: operationOf(set, {
      id: `watch${prefixOf(resource)}${name}`,
      origin,
      action,
      tag: tagOf(resource),
      type: { group, kind, version },
      answer,
      produces: [...builtinTypes, ...watchTypes],
    }),
    ...pathItemParameters(set, { path: parameters, query: listParameters }),
  });
  const name = `${scopeOf(resource)}${kind}`;
  return {
    ...(isNamespaced ? { [`${root}/watch/${plural}`]: path(`${kind}ListForAllNamespaces`, "watchlist", []) } : {}),
    [collection]: path(`${name}List`, "watchlist", pathParameterNames(scope, false)),
    [`${collection}/{name}`]: path(name, "watch", pathParameterNames(scope, true)),
  };
}
