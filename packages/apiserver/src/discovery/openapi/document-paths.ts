import type { GroupVersion } from "../resource-groups.ts";
import { addDefinition, type DefinitionSet, reference } from "./openapi-definitions.ts";
import { groupPrefix, groupTag, prefixOf, tagOf } from "./openapi-names.ts";
import { builtinTypes, documentOperation } from "./openapi-operations.ts";
import type { Json } from "./openapi-types.ts";

/** A path without a resource: discovery, the version, or the keys of service account tokens. */
export interface DocumentPath {
  /** Its path in the index of OpenAPI v3: `api`, `apis/apps`, `version`. */
  readonly path: string;
  readonly describe: (set: DefinitionSet) => Json;
}

const json = ["application/json"] as const;

/** Every path without a resource outside group versions. `groups` are the built-in ones. */
export function documentPaths(groups: readonly string[], hasIssuer: boolean): readonly DocumentPath[] {
  return [
    ...(hasIssuer ? issuerPaths() : []),
    discoveryPath("api", "getCoreAPIVersions", "core", "meta.v1.APIVersions"),
    discoveryPath("apis", "getAPIVersions", "apis", "meta.v1.APIGroupList"),
    ...groups
      .filter((group) => group !== "")
      .map((group) => discoveryPath(`apis/${group}`, `get${groupPrefix(group)}APIGroup`, groupTag(group), "meta.v1.APIGroup")),
    {
      path: "version",
      describe: (set) => {
        const answer = reference(set.version, addDefinition(set, "apimachinery.version.Info"));
        const operation = { id: "getCodeVersion", tag: "version", answer, produces: json, consumes: json };
        return { get: documentOperation(set, operation) };
      },
    },
  ];
}

/** The discovery of a group version: its path and description. */
export function groupVersionPath(set: DefinitionSet, groupVersion: GroupVersion): Json {
  const { group, version } = groupVersion;
  const path = group === "" ? `api/${version}` : `apis/${group}/${version}`;
  const id = `get${prefixOf(groupVersion)}APIResources`;
  return { [`/${path}/`]: discoveryPath(path, id, tagOf(groupVersion), "meta.v1.APIResourceList").describe(set) };
}

function discoveryPath(path: string, id: string, tag: string, definition: string): DocumentPath {
  return {
    path,
    describe: (set) => {
      const answer = reference(set.version, addDefinition(set, definition));
      return { get: documentOperation(set, { id, tag, answer, produces: builtinTypes, consumes: builtinTypes }) };
    },
  };
}

function issuerPaths(): readonly DocumentPath[] {
  const textPath = (path: string, id: string, tag: string, produces: readonly string[]): DocumentPath => ({
    path,
    describe: (set) => ({ get: documentOperation(set, { id, tag, answer: { type: "string" }, produces }) }),
  });
  return [
    textPath(".well-known/openid-configuration", "getServiceAccountIssuerOpenIDConfiguration", "WellKnown", json),
    textPath("openid/v1/jwks", "getServiceAccountIssuerOpenIDKeyset", "openid", ["application/jwk-set+json"]),
  ];
}
