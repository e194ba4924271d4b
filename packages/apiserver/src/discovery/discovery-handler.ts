import { createHash } from "node:crypto";
import type { DocumentOutcome, Outcome, PipelineRequest } from "../endpoints/outcome.ts";
import type { ResourceTable, ServedResource } from "../registry/served-resource.ts";
import {
  acceptedAggregatedVersion,
  aggregatedDiscovery,
  aggregatedMediaType,
  type AggregatedVersion,
} from "./aggregated-discovery.ts";
import { apiGroup, apiGroupList, apiResourceList, apiVersions } from "./group-documents.ts";
import { type HealthChecks, healthOutcome } from "./health.ts";
import { openApiV2, openApiV3 } from "./openapi-documents.ts";
import { encodeOpenApiV2, openApiProtobufType, prefersOpenApiProtobuf } from "./openapi-protobuf.ts";
import { type GroupVersion, groupResources, type ResourceGroup } from "./resource-groups.ts";

/** What {@link createDiscoveryHandler} takes besides the registry. */
export interface DiscoveryOptions {
  /** Default: `ping` only. */
  readonly checks?: HealthChecks;
  /** Default: {@link serverVersion}. */
  readonly version?: string;
}

/** What `/version` tells as gitVersion: the Kubernetes version whose schemas and semantics these are, and whose server this is. */
export const serverVersion = "v1.35.0+keelson";

/** A document, made and hashed when first asked for. */
interface LazyDocument {
  readonly body: unknown;
  readonly etag: string;
}

/** Documents of what is served now. */
interface Snapshot {
  readonly groups: readonly ResourceGroup[];
  readonly documents: Map<string, LazyDocument>;
}

/**
 * Answers what is no resource: `/version`, health checks, discovery (`/api`, `/apis` and below; aggregated where the client asks for it)
 * and OpenAPI v2 and v3. Documents are made when first asked for and kept until what they tell of changes; the OpenAPI document of
 * a version of a group that did not change stays, and with it its hash. Undefined for other paths.
 */
export function createDiscoveryHandler(
  registry: Pick<ResourceTable, "list" | "onChange">,
  options: DiscoveryOptions = {},
): { readonly handle: (request: PipelineRequest) => Promise<Outcome | undefined>; close(): void } {
  const { checks = {}, version = serverVersion } = options;
  let snapshot: Snapshot | undefined;
  const openApi = new Map<string, { readonly resources: readonly ServedResource[]; readonly document: LazyDocument }>();
  const unsubscribe = registry.onChange(() => {
    snapshot = undefined;
  });

  const current = (): Snapshot => {
    if (snapshot === undefined) {
      snapshot = { groups: groupResources(registry.list()), documents: new Map() };
      const served = new Set(snapshot.groups.flatMap((group) => group.versions.map(openApiPath)));
      for (const path of openApi.keys()) if (!served.has(path)) openApi.delete(path);
    }
    return snapshot;
  };

  const cached = (key: string, make: () => unknown): LazyDocument => {
    const { documents } = current();
    let document = documents.get(key);
    if (document === undefined) {
      document = lazyDocument(make());
      documents.set(key, document);
    }
    return document;
  };

  const openApiDocument = (groupVersion: GroupVersion): LazyDocument => {
    const path = openApiPath(groupVersion);
    const known = openApi.get(path);
    if (known !== undefined && isSameList(known.resources, groupVersion.resources)) return known.document;
    const document = lazyDocument(openApiV3(groupVersion, version));
    openApi.set(path, { resources: groupVersion.resources, document });
    return document;
  };

  const aggregated = (request: PipelineRequest, root: "api" | "apis", form: AggregatedVersion): Outcome => {
    const groups = (): readonly ResourceGroup[] => current().groups.filter(({ name }) => (name === "") === (root === "api"));
    const document = cached(`${root} ${form}`, () => aggregatedDiscovery(groups(), form));
    return answer(request, document, { "content-type": aggregatedMediaType(form), vary: "Accept" });
  };

  const discovery = (request: PipelineRequest, segments: readonly string[]): Outcome | undefined => {
    const [root, first, second, ...rest] = segments;
    const { groups } = current();
    if (rest.length > 0) return undefined;
    if (first === undefined) {
      const form = acceptedAggregatedVersion(request.headers?.["accept"]);
      if (form !== undefined && (root === "api" || root === "apis")) return aggregated(request, root, form);
      if (root === "apis")
        return answer(
          request,
          cached("apis", () => apiGroupList(groups)),
          { vary: "Accept" },
        );
      const core = groups.find(({ name }) => name === "");
      return {
        kind: "document",
        status: 200,
        headers: { vary: "Accept" },
        body: apiVersions(core, request.headers?.["host"] ?? ""),
      };
    }
    const group = groups.find(({ name }) => name === (root === "api" ? "" : first));
    if (group === undefined) return undefined;
    const versionName = root === "api" ? first : second;
    if (root === "api" && second !== undefined) return undefined;
    if (versionName === undefined)
      return answer(
        request,
        cached(`group ${group.name}`, () => apiGroup(group)),
      );
    const groupVersion = group.versions.find((candidate) => candidate.version === versionName);
    if (groupVersion === undefined) return undefined;
    return answer(
      request,
      cached(`resources ${group.name}/${versionName}`, () => apiResourceList(groupVersion)),
    );
  };

  const openApiAnswer = (request: PipelineRequest, segments: readonly string[]): Outcome | undefined => {
    const versions = current().groups.flatMap((group) => group.versions);
    if (segments.length === 2 && segments[1] === "v2") {
      const document = cached("openapi v2", () => openApiV2(versions, version));
      if (!prefersOpenApiProtobuf(request.headers?.["accept"])) return answer(request, document, { vary: "Accept" });
      const protobuf = cached("openapi v2 protobuf", () => encodeOpenApiV2(Object(document.body)));
      return answer(request, protobuf, { "content-type": openApiProtobufType, vary: "Accept" });
    }
    if (segments[1] !== "v3") return undefined;
    if (segments.length === 2) {
      const index = cached("openapi v3", () => ({
        paths: Object.fromEntries(
          versions.map((groupVersion) => {
            const path = openApiPath(groupVersion);
            const hash = openApiDocument(groupVersion).etag.replaceAll('"', "");
            return [path, { serverRelativeURL: `/openapi/v3/${path}?hash=${hash}` }];
          }),
        ),
      }));
      return answer(request, index);
    }
    const path = segments.slice(2).join("/");
    const groupVersion = versions.find((candidate) => openApiPath(candidate) === path);
    if (groupVersion === undefined) return undefined;
    const document = openApiDocument(groupVersion);
    // The path in the index names the content, so that content may be kept for ever.
    const isExact = `"${request.query?.["hash"] ?? ""}"` === document.etag;
    return answer(request, document, isExact ? { "cache-control": "public, immutable, max-age=31536000" } : {});
  };

  return {
    async handle(request) {
      if (request.method !== "GET" && (request.method as string) !== "HEAD") return undefined;
      const path = request.path.length > 1 && request.path.endsWith("/") ? request.path.slice(0, -1) : request.path;
      const segments = path.slice(1).split("/");
      switch (segments[0]) {
        case "":
          return answer(
            request,
            cached("root", () => ({ paths: rootPaths(current().groups) })),
          );
        case "version":
          return segments.length === 1
            ? answer(
                request,
                cached("version", () => versionInfo(version)),
              )
            : undefined;
        case "api":
        case "apis":
          return discovery(request, segments);
        case "openapi":
          return openApiAnswer(request, segments);
        default:
          return healthOutcome(path, request.query ?? {}, checks);
      }
    },
    close: unsubscribe,
  };
}

function answer(request: PipelineRequest, document: LazyDocument, headers: DocumentOutcome["headers"] = {}): Outcome {
  const all = { "cache-control": "public", ...headers, etag: document.etag };
  const known = request.headers?.["if-none-match"];
  if (known !== undefined && known.split(",").some((tag) => tag.trim() === document.etag)) {
    return { kind: "raw", status: 304, headers: all, body: "" };
  }
  if (document.body instanceof Uint8Array) {
    return { kind: "raw", status: 200, headers: { "content-type": "application/octet-stream", ...all }, body: document.body };
  }
  return { kind: "document", status: 200, headers: all, body: document.body };
}

function lazyDocument(body: unknown): LazyDocument {
  let etag: string | undefined;
  return {
    body,
    get etag() {
      etag ??= `"${createHash("sha256")
        .update(body instanceof Uint8Array ? body : JSON.stringify(body))
        .digest("hex")
        .slice(0, 64)
        .toUpperCase()}"`;
      return etag;
    },
  };
}

function openApiPath({ group, version }: { readonly group: string; readonly version: string }): string {
  return group === "" ? `api/${version}` : `apis/${group}/${version}`;
}

function isSameList(a: readonly unknown[], b: readonly unknown[]): boolean {
  return a.length === b.length && a.every((element, index) => element === b[index]);
}

function versionInfo(gitVersion: string): object {
  const [, major = "1", minor = "0"] = /^v(\d+)\.(\d+)/.exec(gitVersion) ?? [];
  return {
    major,
    minor,
    gitVersion,
    gitCommit: "",
    gitTreeState: "clean",
    buildDate: "1970-01-01T00:00:00Z",
    goVersion: "",
    compiler: "",
    platform: "linux/amd64",
  };
}

function rootPaths(groups: readonly ResourceGroup[]): readonly string[] {
  const paths = ["/api", "/apis", "/healthz", "/healthz/ping", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"];
  for (const { name, versions } of groups) {
    if (name !== "") paths.push(`/apis/${name}`);
    for (const { version } of versions) paths.push(name === "" ? `/api/${version}` : `/apis/${name}/${version}`);
  }
  return paths.sort();
}
