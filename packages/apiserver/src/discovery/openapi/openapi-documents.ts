import { addKind, type DefinitionSet } from "./openapi-definitions.ts";
import { resourcePaths } from "./openapi-paths.ts";
import type { OpenApiVersion } from "./openapi-types.ts";
import type { GroupVersion } from "../resource-groups.ts";

/** `/openapi/v3/apis/<group>/<version>`: the paths and schemas of one group version. */
export function openApiV3(groupVersion: GroupVersion, serverVersion: string): object {
  const { paths, schemas } = describeAll([groupVersion], "v3");
  return {
    openapi: "3.0.0",
    info: { title: "Kubernetes", version: serverVersion },
    paths,
    components: { schemas },
  };
}

/** `/openapi/v2`: the paths and schemas of all served resources. */
export function openApiV2(groupVersions: readonly GroupVersion[], serverVersion: string): object {
  const { paths, schemas } = describeAll(groupVersions, "v2");
  const remotes = groupVersions.flatMap(({ remote }) => remote?.openApiV2 ?? []);
  return {
    swagger: "2.0",
    info: { title: "Kubernetes", version: serverVersion },
    paths: Object.assign({}, ...remotes.map((remote) => remote.paths), paths),
    // Own definitions win over those of extension API servers, which usually repeat those of metadata.
    definitions: Object.assign({}, ...remotes.map(({ definitions }) => definitions), schemas),
  };
}

function describeAll(groupVersions: readonly GroupVersion[], version: OpenApiVersion): { paths: object; schemas: object } {
  const set: DefinitionSet = { version, schemas: new Map() };
  const paths: Record<string, unknown> = {};
  for (const { resources } of groupVersions) {
    for (const resource of resources) {
      addKind(set, resource);
      Object.assign(paths, resourcePaths(set, resource));
    }
  }
  return { paths, schemas: Object.fromEntries([...set.schemas].sort(([a], [b]) => (a < b ? -1 : 1))) };
}
