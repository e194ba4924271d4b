import type { Steps } from "@keelson/api-machinery/server";
import type { Outcome, PipelineRequest } from "../../endpoints/outcome.ts";
import { takeTurns } from "../../endpoints/pause.ts";
import type { ServedResource } from "../../registry/served-resource.ts";
import { type LazyDocument, lazyDocument, serveDocument } from "../lazy-document.ts";
import type { GroupVersion, RemoteApis, RemoteVersion, ResourceGroup } from "../resource-groups.ts";
import { encodeJson, type EncodedDocument, encodeProtobuf } from "./document-encoding.ts";
import { type DocumentPath, documentPaths } from "./document-paths.ts";
import { openApiProtobufType, prefersOpenApiProtobuf } from "./media-types.ts";
import { documentPathV3, openApiV2, openApiV3 } from "./openapi-documents.ts";
import type { Json } from "./openapi-types.ts";
import { encodeOpenApiV2 } from "./openapi-v2-protobuf.ts";
import { encodeOpenApiV3 } from "./openapi-v3-protobuf.ts";

/** A document of the index of OpenAPI v3. */
interface IndexedDocument {
  /** What it describes. A document of other resources is another one. */
  readonly resources: readonly ServedResource[];
  readonly json: Promise<LazyDocument>;
  /** Has the ETag of `json`: the hash in URLs names the document in either format, as in kube-apiserver. */
  readonly protobuf: () => Promise<LazyDocument>;
}

/** What {@link OpenApiHandler} describes. */
export interface OpenApiOptions {
  /** In documents: `1.35`. */
  readonly version: string;
  /** Whether the server publishes the keys of service account tokens. */
  readonly hasIssuer: boolean;
  readonly remotes: RemoteApis | undefined;
}

/**
 * Serves `/openapi/v2`, `/openapi/v3` and below. Documents are created on first use, in many turns of the event loop, and kept as bytes. The
 * document of an unchanged group version keeps its hash.
 */
export class OpenApiHandler {
  readonly #options: OpenApiOptions;
  readonly #indexed = new Map<string, IndexedDocument>();
  #v2: { readonly groups: readonly ResourceGroup[]; readonly documents: Map<string, Promise<LazyDocument>> } | undefined;

  constructor(options: OpenApiOptions) {
    this.#options = options;
  }

  /** The response for a path below `/openapi`. Undefined for unknown paths. `groups` are those served now. */
  async outcome(
    request: PipelineRequest,
    segments: readonly string[],
    groups: readonly ResourceGroup[],
  ): Promise<Outcome | undefined> {
    const [, version, ...rest] = segments;
    if (version === "v2") return rest.length > 0 ? undefined : this.#v2Outcome(request, groups);
    if (version !== "v3") return undefined;
    if (rest.length === 0) {
      // kube-apiserver names no type, so that Go detects text.
      return serveDocument(request, lazyDocument(await this.#index(groups)), { "content-type": "text/plain; charset=utf-8" });
    }
    const path = rest.join("/");
    const groupVersion = versionsOf(groups).find((candidate) => openApiPath(candidate) === path);
    if (groupVersion?.remote !== undefined) return this.#remote(request, groupVersion.remote);
    const document = groupVersion === undefined ? this.#documentPath(path, groups) : this.#groupVersion(groupVersion);
    return document === undefined ? undefined : serveIndexed(request, path, document);
  }

  async #v2Outcome(request: PipelineRequest, groups: readonly ResourceGroup[]): Promise<Outcome> {
    const { version } = this.#options;
    const describe = (): Steps<Json> => openApiV2(versionsOf(groups), this.#documentPaths(groups), version);
    if (!prefersOpenApiProtobuf(request.headers?.["accept"], "v2")) {
      const document = await this.#cachedV2(groups, "json", () => takeTurns(jsonOf(describe())));
      return serveDocument(request, document, { vary: "Accept" });
    }
    const protobuf = await this.#cachedV2(groups, "protobuf", async () =>
      lazyDocument(await takeTurns(encodeProtobuf(await takeTurns(describe()), encodeOpenApiV2))),
    );
    return serveDocument(request, protobuf, { "content-type": openApiProtobufType("v2"), vary: "Accept" });
  }

  #cachedV2(groups: readonly ResourceGroup[], format: string, create: () => Promise<LazyDocument>): Promise<LazyDocument> {
    if (this.#v2?.groups !== groups) this.#v2 = { groups, documents: new Map() };
    const { documents } = this.#v2;
    const document = documents.get(format) ?? create();
    documents.set(format, document);
    return document;
  }

  async #index(groups: readonly ResourceGroup[]): Promise<object> {
    const versions = versionsOf(groups);
    const served = new Set([...versions.map(openApiPath), ...this.#documentPaths(groups).map(({ path }) => path)]);
    for (const path of this.#indexed.keys()) if (!served.has(path)) this.#indexed.delete(path);
    const paths: Record<string, object> = {};
    for (const { path } of this.#documentPaths(groups)) {
      const document = this.#documentPath(path, groups);
      if (document !== undefined) paths[path] = { serverRelativeURL: openApiUrl(path, (await document.json).etag) };
    }
    for (const groupVersion of versions) {
      const path = openApiPath(groupVersion);
      const { remote } = groupVersion;
      const url =
        remote === undefined ? openApiUrl(path, (await this.#groupVersion(groupVersion).json).etag) : remote.openApiV3;
      if (url !== undefined) paths[path] = { serverRelativeURL: url };
    }
    return { paths };
  }

  #groupVersion(groupVersion: GroupVersion): IndexedDocument {
    const describe = (): Steps<Json> => openApiV3(groupVersion, this.#options.version);
    return this.#document(openApiPath(groupVersion), groupVersion.resources, describe);
  }

  #documentPath(path: string, groups: readonly ResourceGroup[]): IndexedDocument | undefined {
    const found = this.#documentPaths(groups).find((candidate) => candidate.path === path);
    if (found === undefined) return undefined;
    return this.#document(path, [], () => documentPathV3(found, this.#options.version));
  }

  #documentPaths(groups: readonly ResourceGroup[]): readonly DocumentPath[] {
    const builtin = groups.filter(({ versions }) => versions.some(({ resources }) => resources[0]?.origin === "builtin"));
    return documentPaths(
      builtin.map(({ name }) => name),
      this.#options.hasIssuer,
    );
  }

  #document(path: string, resources: readonly ServedResource[], describe: () => Steps<Json>): IndexedDocument {
    const known = this.#indexed.get(path);
    if (known !== undefined && isSameList(known.resources, resources)) return known;
    const json = takeTurns(jsonOf(describe()));
    let protobuf: Promise<LazyDocument> | undefined;
    const encode = async (): Promise<LazyDocument> => {
      const body = await takeTurns(encodeProtobuf(await takeTurns(describe()), encodeOpenApiV3));
      return { body, etag: (await json).etag };
    };
    const document = { resources, json, protobuf: () => (protobuf ??= encode()) };
    this.#indexed.set(path, document);
    return document;
  }

  #remote(request: PipelineRequest, { group, version, openApiV3: path }: RemoteVersion): Promise<Outcome> | undefined {
    if (path === undefined) return undefined;
    return this.#options.remotes?.openApiV3(group, version, path, request.headers?.["accept"] ?? "application/json");
  }
}

async function serveIndexed(request: PipelineRequest, path: string, document: IndexedDocument): Promise<Outcome> {
  const json = await document.json;
  const { etag } = json;
  const hash = request.query?.["hash"] ?? "";
  if (hash !== "" && `"${hash}"` !== etag) {
    const location = openApiUrl(path, etag);
    return { kind: "raw", status: 301, headers: { location, etag, vary: "Accept" }, body: "" };
  }
  // The hash in the URL identifies the content, so the response may be cached forever.
  const headers: Record<string, string> = { vary: "Accept" };
  if (hash !== "") headers["cache-control"] = "public, immutable, max-age=31536000";
  if (!prefersOpenApiProtobuf(request.headers?.["accept"], "v3")) return serveDocument(request, json, headers);
  return serveDocument(request, await document.protobuf(), { ...headers, "content-type": openApiProtobufType("v3") });
}

function* jsonOf(steps: Steps<Json>): Steps<LazyDocument> {
  return encodedDocument(yield* encodeJson(yield* steps));
}

/** The value is parsed only for clients that want another format. */
function encodedDocument({ bytes, etag }: EncodedDocument): LazyDocument {
  return {
    encoded: bytes,
    etag,
    get body() {
      return JSON.parse(Buffer.from(bytes).toString()) as unknown;
    },
  };
}

function versionsOf(groups: readonly ResourceGroup[]): readonly GroupVersion[] {
  return groups.flatMap(({ versions }) => versions);
}

function openApiUrl(path: string, etag: string): string {
  return `/openapi/v3/${path}?hash=${etag.replaceAll('"', "")}`;
}

function openApiPath({ group, version }: { readonly group: string; readonly version: string }): string {
  return group === "" ? `api/${version}` : `apis/${group}/${version}`;
}

function isSameList(a: readonly unknown[], b: readonly unknown[]): boolean {
  return a.length === b.length && a.every((element, index) => element === b[index]);
}
