import type { Steps } from "@keelson/api-machinery/server";
import type { GroupVersion } from "../resource-groups.ts";
import { type DocumentPath, groupVersionPath } from "./document-paths.ts";
import { addKind, type DefinitionSet } from "./openapi-definitions.ts";
import { resourcePaths } from "./openapi-paths.ts";
import type { Json, OpenApiVersion } from "./openapi-types.ts";

const bearerToken = { type: "apiKey", description: "Bearer Token authentication", name: "authorization", in: "header" };

/** `/openapi/v3/apis/<group>/<version>`: the paths and schemas of one group version. Each step describes a resource. */
export function* openApiV3(groupVersion: GroupVersion, serverVersion: string): Steps<Json> {
  const description = yield* describe([groupVersion], [], "v3");
  return isCustom(groupVersion) ? customDocumentV3(description) : documentV3(description, serverVersion);
}

/** `/openapi/v3/version` and the like: a path without a resource. */
export function* documentPathV3(path: DocumentPath, serverVersion: string): Steps<Json> {
  return documentV3(yield* describe([], [path], "v3"), serverVersion);
}

/** `/openapi/v2`: the paths and schemas of all served resources. Each step describes a resource. */
export function* openApiV2(
  groupVersions: readonly GroupVersion[],
  documents: readonly DocumentPath[],
  serverVersion: string,
): Steps<Json> {
  const { paths, schemas } = yield* describe(groupVersions, documents, "v2");
  const remotes = groupVersions.flatMap(({ remote }) => remote?.openApiV2 ?? []);
  return {
    swagger: "2.0",
    info: { title: "Kubernetes", version: serverVersion },
    paths: Object.assign({}, ...remotes.map((remote) => remote.paths), paths),
    // Own definitions win over those of extension API servers, which usually repeat those of metadata.
    definitions: Object.assign({}, ...remotes.map(({ definitions }) => definitions), schemas),
    securityDefinitions: { BearerToken: bearerToken },
    security: [{ BearerToken: [] }],
  };
}

interface Description {
  readonly paths: Json;
  readonly schemas: Json;
}

function documentV3({ paths, schemas }: Description, serverVersion: string): Json {
  return {
    openapi: "3.0.0",
    info: { title: "Kubernetes", version: serverVersion },
    paths,
    components: { ...(Object.keys(schemas).length === 0 ? {} : { schemas }), securitySchemes: { BearerToken: bearerToken } },
  };
}

/** As the part of kube-apiserver that serves custom resources publishes it. */
function customDocumentV3({ paths, schemas }: Description): Json {
  return { openapi: "3.0.0", info: { title: "Kubernetes CRD Swagger", version: "v0.1.0" }, paths, components: { schemas } };
}

/** Custom resources have group versions of their own. */
function isCustom({ resources }: GroupVersion): boolean {
  return resources[0]?.origin !== "builtin";
}

function* describe(
  groupVersions: readonly GroupVersion[],
  documents: readonly DocumentPath[],
  version: OpenApiVersion,
): Steps<Description> {
  const isOfCustomKinds = version === "v3" && groupVersions.some(isCustom);
  const set: DefinitionSet = { version, isOfCustomKinds, schemas: new Map() };
  const paths: Json = {};
  for (const path of documents) paths[`/${path.path}/`] = path.describe(set);
  for (const groupVersion of groupVersions) {
    const { resources } = groupVersion;
    if (!isCustom(groupVersion)) Object.assign(paths, groupVersionPath(set, groupVersion));
    for (const resource of resources) {
      addKind(set, resource);
      yield;
      Object.assign(paths, resourcePaths(set, resource));
      yield;
    }
  }
  return { paths, schemas: sorted(set) };
}

function sorted({ schemas }: DefinitionSet): Json {
  return Object.fromEntries([...schemas].sort(([a], [b]) => (a < b ? -1 : 1)));
}
