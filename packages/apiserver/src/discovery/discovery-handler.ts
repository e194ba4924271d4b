import type { Outcome, PipelineRequest } from "../endpoints/outcome.ts";
import type { ResourceTable } from "../registry/served-resource.ts";
import { isReadOnlyPath } from "../endpoints/absent-path.ts";
import { methodNotAllowed } from "../endpoints/errors.ts";
import { notAcceptable } from "../http/negotiation.ts";
import { aggregatedDiscovery, aggregatedMediaType, discoveryForm } from "./aggregated-discovery.ts";
import { apiGroup, apiGroupList, apiResourceList, apiVersions } from "./group-documents.ts";
import { type HealthChecks, healthOutcome, healthPaths } from "./health.ts";
import { type LazyDocument, lazyDocument, serveDocument } from "./lazy-document.ts";
import { OpenApiHandler } from "./openapi/openapi-handler.ts";
import { serverVersion, shortVersion, versionInfo } from "./version-info.ts";
import { groupResources, type RemoteApis, type ResourceGroup, withRemoteVersions } from "./resource-groups.ts";

/** Options of {@link createDiscoveryHandler}. */
export interface DiscoveryOptions {
  /** Health checks in addition to `ping`. */
  readonly checks?: HealthChecks;
  /** Serves `/metrics`. Default: 404. */
  readonly metrics?: () => Outcome;
  /** Serves the OpenID documents of service account tokens. Default: 404. */
  readonly issuer?: (path: string, host: string | undefined) => Outcome | undefined;
  /** Group versions of extension API servers. Default: none. */
  readonly remotes?: RemoteApis;
  /** Default: {@link serverVersion}. */
  readonly version?: string;
}

/** Serves non-resource paths. */
export interface DiscoveryHandler {
  /** Undefined for unknown paths. */
  readonly handle: (request: PipelineRequest) => Promise<Outcome | undefined>;
  close(): void;
}

/**
 * Serves `/version`, health checks, discovery (`/api`, `/apis` and below, also aggregated) and OpenAPI v2 and v3. Documents are created on
 * first use and cached until the served resources change. The OpenAPI v3 document of an unchanged group version keeps its hash.
 */
export function createDiscoveryHandler(
  registry: Pick<ResourceTable, "list" | "onChange">,
  options: DiscoveryOptions = {},
): DiscoveryHandler {
  return new CachingDiscoveryHandler(registry, options);
}

/** Documents for the currently served resources. */
interface Snapshot {
  readonly groups: readonly ResourceGroup[];
  readonly documents: Map<string, LazyDocument>;
}

class CachingDiscoveryHandler implements DiscoveryHandler {
  readonly #registry: Pick<ResourceTable, "list" | "onChange">;
  readonly #checks: HealthChecks;
  readonly #version: string;
  readonly #metrics: (() => Outcome) | undefined;
  readonly #issuer: DiscoveryOptions["issuer"];
  readonly #openApi: OpenApiHandler;
  readonly #remotes: RemoteApis | undefined;
  readonly #unsubscribe: readonly (() => void)[];
  #snapshot: Snapshot | undefined;

  constructor(
    registry: Pick<ResourceTable, "list" | "onChange">,
    { checks = {}, version = serverVersion, metrics, issuer, remotes }: DiscoveryOptions,
  ) {
    this.#registry = registry;
    this.#checks = checks;
    this.#version = version;
    this.#metrics = metrics;
    this.#issuer = issuer;
    this.#remotes = remotes;
    this.#openApi = new OpenApiHandler({ version: shortVersion(version), hasIssuer: issuer !== undefined, remotes });
    const forget = (): void => {
      this.#snapshot = undefined;
    };
    this.#unsubscribe = [registry.onChange(forget), ...(remotes === undefined ? [] : [remotes.onChange(forget)])];
  }

  readonly handle = async (request: PipelineRequest): Promise<Outcome | undefined> => {
    const outcome = await this.#serve(request);
    if (outcome !== undefined && request.method !== "GET" && isReadOnlyPath(request.path, this.#registry))
      throw methodNotAllowed();
    return outcome;
  };

  async #serve(request: PipelineRequest): Promise<Outcome | undefined> {
    const path = request.path.length > 1 && request.path.endsWith("/") ? request.path.slice(0, -1) : request.path;
    const segments = path.slice(1).split("/");
    switch (segments[0]) {
      case "":
        if (path !== "/") return undefined;
        return serveDocument(
          request,
          this.#cached("root", () => ({ paths: rootPaths(this.#current().groups) })),
        );
      case "version":
        if (segments.length > 1) return undefined;
        return serveDocument(
          request,
          this.#cached("version", () => versionInfo(this.#version)),
        );
      case "api":
      case "apis":
        return this.#discovery(request, segments);
      case "metrics":
        return segments.length === 1 ? this.#metrics?.() : undefined;
      case "openapi":
        return this.#openApi.outcome(request, segments, this.#current().groups);
      case ".well-known":
      case "openid":
        return this.#issuer?.(path, request.headers?.host);
      default:
        return healthOutcome(request.path, request.query ?? {}, this.#checks);
    }
  }

  close(): void {
    for (const unsubscribe of this.#unsubscribe) unsubscribe();
  }

  #current(): Snapshot {
    if (this.#snapshot === undefined) {
      const groups = withRemoteVersions(groupResources(this.#registry.list()), this.#remotes);
      this.#snapshot = { groups, documents: new Map() };
    }
    return this.#snapshot;
  }

  #cached(key: string, create: () => unknown): LazyDocument {
    const { documents } = this.#current();
    let document = documents.get(key);
    if (document === undefined) {
      document = lazyDocument(create());
      documents.set(key, document);
    }
    return document;
  }

  #discovery(request: PipelineRequest, segments: readonly string[]): Outcome | undefined {
    const [root, first, second, ...rest] = segments;
    const { groups } = this.#current();
    if (rest.length > 0) return undefined;
    if (first === undefined) return this.#roots(request, root === "apis" ? "apis" : "api");
    const group = groups.find(({ name }) => name === (root === "api" ? "" : first));
    if (group === undefined) return undefined;
    const versionName = root === "api" ? first : second;
    if (root === "api" && second !== undefined) return undefined;
    if (versionName === undefined) {
      return serveDocument(
        request,
        this.#cached(`group ${group.name}`, () => apiGroup(group)),
      );
    }
    const groupVersion = group.versions.find((candidate) => candidate.version === versionName);
    if (groupVersion === undefined) return undefined;
    return serveDocument(
      request,
      this.#cached(`resources ${group.name}/${versionName}`, () => apiResourceList(groupVersion)),
    );
  }

  /** `/api` and `/apis`. */
  #roots(request: PipelineRequest, root: "api" | "apis"): Outcome {
    const { groups } = this.#current();
    const form = discoveryForm(request.headers?.["accept"]);
    if (form === "unacceptable") throw notAcceptable();
    if (form === "aggregated") return this.#aggregated(request, root);
    if (root === "apis") {
      return serveDocument(
        request,
        this.#cached("apis", () => apiGroupList(groups)),
        { vary: "Accept" },
      );
    }
    const core = groups.find(({ name }) => name === "");
    const body = apiVersions(core, request.headers?.["host"] ?? "");
    return { kind: "document", status: 200, headers: { vary: "Accept" }, body };
  }

  #aggregated(request: PipelineRequest, root: "api" | "apis"): Outcome {
    const document = this.#cached(`${root} aggregated`, () =>
      aggregatedDiscovery(this.#current().groups.filter(({ name }) => (name === "") === (root === "api"))),
    );
    return serveDocument(request, document, { "cache-control": "public", "content-type": aggregatedMediaType, vary: "Accept" });
  }
}

function rootPaths(groups: readonly ResourceGroup[]): readonly string[] {
  const paths = ["/api", "/apis", ...healthPaths, "/metrics", "/openapi/v2", "/openapi/v3", "/version"];
  for (const { name, versions } of groups) {
    if (name !== "") paths.push(`/apis/${name}`);
    for (const { version } of versions) paths.push(name === "" ? `/api/${version}` : `/apis/${name}/${version}`);
  }
  return paths.sort();
}
