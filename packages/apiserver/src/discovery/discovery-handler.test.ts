import { beforeEach, describe, expect, it } from "vitest";
import type { Outcome, PipelineRequest } from "../endpoints/outcome.ts";
import { builtinKinds } from "../registry/builtin-kinds.ts";
import { crdResources } from "../registry/crd/crd-resources.ts";
import { asCrd } from "../registry/crd/crd-spec.ts";
import { setField, valueAt } from "../registry/object-fields.ts";
import type { ServedResource } from "../registry/served-resource.ts";
import { noReviews, widgetCrd } from "../registry/testing/crd-samples.ts";
import { createDiscoveryHandler } from "./discovery-handler.ts";

const builtin = builtinKinds({ clock: { now: () => 0 }, reviews: noReviews });

function widgets(): readonly ServedResource[] {
  const crd = widgetCrd({ shortNames: ["wd"] });
  setField(valueAt(crd, "spec", "names") as object, "singular", "widget");
  setField(valueAt(crd, "spec", "names") as object, "listKind", "WidgetList");
  setField(valueAt(crd, "spec", "names") as object, "categories", ["all"]);
  setField(valueAt(crd, "spec", "versions", 0, "subresources") as object, "scale", {
    specReplicasPath: ".spec.n",
    statusReplicasPath: ".status.n",
  });
  setField(crd, "status", { conditions: [{ type: "Established", status: "True" }] });
  return crdResources(asCrd(crd));
}

let served: readonly ServedResource[];
let listeners: Set<() => void>;
let handle: ReturnType<typeof createDiscoveryHandler>["handle"];
let failure: string | undefined;

beforeEach(() => {
  served = builtin;
  listeners = new Set();
  failure = undefined;
  const registry = {
    list: () => served,
    onChange: (listener: () => void) => {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
  ({ handle } = createDiscoveryHandler(registry, { checks: { storage: () => failure } }));
});

function serve(resources: readonly ServedResource[]): void {
  served = resources;
  for (const listener of listeners) listener();
}

function request(path: string, headers: Record<string, string> = {}, query: Record<string, string> = {}): PipelineRequest {
  return { method: "GET", path, headers, query, user: { username: "u", groups: [] } };
}

async function get(
  path: string,
  headers: Record<string, string> = {},
  query: Record<string, string> = {},
): Promise<Extract<Outcome, { kind: "document" | "raw" }>> {
  const outcome = await handle(request(path, headers, query));
  if (outcome?.kind !== "document" && outcome?.kind !== "raw") throw new Error(`${path} answers nothing`);
  return outcome;
}

const at = async (path: string, ...steps: (string | number)[]): Promise<unknown> => valueAt((await get(path)).body, ...steps);

describe("discovery", () => {
  it("lists groups, versions and resources with their subresources", async () => {
    serve([...builtin, ...widgets()]);
    expect(await at("/api", "versions")).toEqual(["v1"]);
    const groups = (await at("/apis", "groups")) as { name: string }[];
    expect(groups.map(({ name }) => name)).toContain("rbac.authorization.k8s.io");
    expect(groups.map(({ name }) => name)).not.toContain("");
    expect((await get("/apis/example.com")).body).toEqual({
      kind: "APIGroup",
      apiVersion: "v1",
      name: "example.com",
      versions: [{ groupVersion: "example.com/v1", version: "v1" }],
      preferredVersion: { groupVersion: "example.com/v1", version: "v1" },
    });
    const verbs = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
    expect((await get("/apis/example.com/v1")).body).toEqual({
      kind: "APIResourceList",
      apiVersion: "v1",
      groupVersion: "example.com/v1",
      resources: [
        {
          name: "widgets",
          singularName: "widget",
          namespaced: true,
          kind: "Widget",
          verbs,
          shortNames: ["wd"],
          categories: ["all"],
          storageVersionHash: "gIwvi5rymmg=",
        },
        { name: "widgets/status", singularName: "", namespaced: true, kind: "Widget", verbs: ["get", "patch", "update"] },
        {
          name: "widgets/scale",
          singularName: "",
          namespaced: true,
          group: "autoscaling",
          version: "v1",
          kind: "Scale",
          verbs: ["get", "patch", "update"],
        },
      ],
    });
    const core = (await at("/api/v1", "resources")) as { name: string; verbs: string[]; version?: string }[];
    expect(core.find(({ name }) => name === "pods")).toMatchObject({ storageVersionHash: "xPOwRZ+Yhw8=" });
    expect(core.find(({ name }) => name === "bindings")).not.toHaveProperty("storageVersionHash");
    const hpas = (await at("/apis/autoscaling/v1", "resources")) as object[];
    expect(hpas[0]).toMatchObject({ storageVersionHash: "qwQve8ut294=" });
    expect(core.find(({ name }) => name === "namespaces/finalize")?.verbs).toEqual(["update"]);
    expect(core.find(({ name }) => name === "serviceaccounts/token")).toMatchObject({
      group: "authentication.k8s.io",
      version: "v1",
    });
  });

  it("returns 404 for unknown groups, versions and paths", async () => {
    for (const path of [
      "/apis/none.example",
      "/apis/apiextensions.k8s.io/v7",
      "/api/v2",
      "/api/v1/x",
      "/metrics",
      "/openapi/v3/apis/x/v1",
      "/openapi/v9",
      "/healthz/",
      "//api/v1",
    ]) {
      expect(await handle(request(path)), path).toBeUndefined();
    }
  });

  it("rejects methods other than GET for documents of built-in kinds, and ignores the method elsewhere", async () => {
    const post = (path: string) => handle({ ...request(path), method: "POST" });
    for (const path of ["/api", "/api/v1", "/apis/apps/v1", "/version"]) {
      await expect(post(path), path).rejects.toMatchObject({ status: { code: 405, reason: "MethodNotAllowed" } });
    }
    for (const path of ["/", "/apis", "/apis/apps", "/healthz", "/openapi/v3"]) {
      expect(await post(path), path).toMatchObject({ status: 200 });
    }
  });

  it("follows CustomResourceDefinitions", async () => {
    expect(await handle(request("/apis/example.com/v1"))).toBeUndefined();
    serve([...builtin, ...widgets()]);
    expect(await at("/apis/example.com/v1", "groupVersion")).toBe("example.com/v1");
    serve(builtin);
    expect(await handle(request("/apis/example.com/v1"))).toBeUndefined();
  });

  it("returns all resources to a client that accepts the aggregated form", async () => {
    serve([...builtin, ...widgets()]);
    const v2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    const v2beta1 = v2.replace("v=v2", "v=v2beta1");
    const { headers, body } = await get("/apis", { accept: `${v2},${v2beta1},application/json` });
    expect(headers?.["content-type"]).toBe(v2);
    expect(valueAt(body, "apiVersion")).toBe("apidiscovery.k8s.io/v2");
    const items = valueAt(body, "items") as {
      metadata: { name: string };
      versions: { freshness: string; resources: unknown[] }[];
    }[];
    const example = items.find(({ metadata }) => metadata.name === "example.com");
    expect(example?.versions[0]?.freshness).toBe("Current");
    expect(example?.versions[0]?.resources).toEqual([
      {
        resource: "widgets",
        responseKind: { group: "example.com", version: "v1", kind: "Widget" },
        scope: "Namespaced",
        singularResource: "widget",
        verbs: expect.arrayContaining(["watch"]),
        shortNames: ["wd"],
        categories: ["all"],
        subresources: [
          {
            subresource: "status",
            responseKind: { group: "example.com", version: "v1", kind: "Widget" },
            verbs: ["get", "patch", "update"],
          },
          {
            subresource: "scale",
            responseKind: { group: "autoscaling", version: "v1", kind: "Scale" },
            verbs: ["get", "patch", "update"],
          },
        ],
      },
    ]);
    await expect(get("/apis", { accept: v2beta1 })).rejects.toMatchObject({ status: { code: 406, reason: "NotAcceptable" } });
    expect(valueAt((await get("/apis", { accept: `application/json,${v2}` })).body, "kind")).toBe("APIGroupDiscoveryList");
    expect(valueAt((await get("/apis", { accept: `${v2beta1},application/json` })).body, "kind")).toBe("APIGroupList");
    const core = (await get("/api", { accept: v2 })).body;
    expect(valueAt(core, "items", 0, "versions", 0, "version")).toBe("v1");
    expect(valueAt(core, "items", 1)).toBeUndefined();
  });

  it("returns 304 to a client that has the document, until it changes", async () => {
    const { headers } = await get("/apis");
    const etag = headers?.["etag"] ?? "";
    expect(etag).toMatch(/^"[0-9A-F]+"$/);
    expect((await get("/apis", { "if-none-match": etag })).status).toBe(304);
    serve([...builtin, ...widgets()]);
    expect((await get("/apis", { "if-none-match": etag })).status).toBe(200);
  });

  it("reports the version in Kubernetes' form", async () => {
    expect((await get("/version")).body).toMatchObject({
      major: "1",
      minor: "35",
      gitVersion: "v1.35.0+keelson",
      platform: expect.any(String),
    });
  });
});

describe("health", () => {
  it.each(["/healthz", "/livez", "/readyz", "/healthz/ping", "/readyz/storage"])("is ok at %s", async (path) => {
    expect(await get(path)).toMatchObject({ status: 200, body: "ok" });
  });

  it("names the failed check, not the reason", async () => {
    failure = "the disk is full";
    expect(await get("/readyz")).toMatchObject({
      status: 500,
      body: "[+]ping ok\n[-]storage failed: reason withheld\nreadyz check failed\n",
    });
    expect((await get("/readyz/storage")).status).toBe(500);
    expect((await get("/readyz", {}, { exclude: "storage" })).status).toBe(200);
  });

  it("lists the checks on demand, and rejects unknown ones", async () => {
    expect((await get("/livez", {}, { verbose: "" })).body).toBe("[+]ping ok\n[+]storage ok\nlivez check passed\n");
    expect(await handle(request("/healthz/no-such-check"))).toBeUndefined();
    expect(await handle(request("/healthz/constructor"))).toBeUndefined();
  });
});

describe("OpenAPI v3", () => {
  it("names each group's document by its hash, which changes with the group only", async () => {
    const before = (await at("/openapi/v3", "paths")) as Record<string, { serverRelativeURL: string }>;
    expect(before["api/v1"]?.serverRelativeURL).toMatch(/^\/openapi\/v3\/api\/v1\?hash=[0-9A-F]+$/);
    serve([...builtin, ...widgets()]);
    const after = (await at("/openapi/v3", "paths")) as Record<string, { serverRelativeURL: string }>;
    expect(after["api/v1"]).toEqual(before["api/v1"]);
    expect(after["apis/example.com/v1"]).toBeDefined();
    const hash = after["api/v1"]?.serverRelativeURL.split("=")[1] ?? "";
    expect((await get("/openapi/v3/api/v1", {}, { hash })).headers?.["cache-control"]).toContain("immutable");
    expect((await get("/openapi/v3/api/v1")).headers?.["cache-control"]).not.toContain("immutable");
    expect(await get("/openapi/v3/api/v1", {}, { hash: "other" })).toMatchObject({
      status: 301,
      headers: { location: after["api/v1"]?.serverRelativeURL },
    });
  });

  it.each(["@", "."])(
    "is protobuf for a client that requests spec.v3%sv1.0, under the hash of the JSON document",
    async (at) => {
      const accept = `application/com.github.proto-openapi.spec.v3${at}v1.0+protobuf`;
      const json = await get("/openapi/v3/apis/apps/v1");
      expect(json.headers).toMatchObject({ vary: "Accept" });
      const etag = json.headers?.["etag"] ?? "";
      const { headers, body } = await get("/openapi/v3/apis/apps/v1", { accept }, { hash: etag.replaceAll('"', "") });
      expect(headers).toMatchObject({
        "content-type": "application/com.github.proto-openapi.spec.v3.v1.0+protobuf",
        "cache-control": expect.stringContaining("immutable"),
        vary: "Accept",
        etag,
      });
      expect(Buffer.from(body as Uint8Array).includes("io.k8s.api.apps.v1.Deployment")).toBe(true);
      const unchanged = await get("/openapi/v3/apis/apps/v1", { accept, "if-none-match": etag });
      expect(unchanged).toMatchObject({ status: 304, headers: { vary: "Accept", etag } });
    },
  );

  it("describes custom kinds in protobuf when they are installed", async () => {
    const accept = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf";
    expect(await handle(request("/openapi/v3/apis/example.com/v1", { accept }))).toBeUndefined();
    serve([...builtin, ...widgets()]);
    const { body } = await get("/openapi/v3/apis/example.com/v1", { accept });
    expect(Buffer.from(body as Uint8Array).includes("com.example.v1.Widget")).toBe(true);
  });

  it("contains every schema that it refers to", async () => {
    serve([...builtin, ...widgets()]);
    const index = (await at("/openapi/v3", "paths")) as object;
    for (const path of Object.keys(index)) {
      const { body } = await get(`/openapi/v3/${path}`);
      const schemas = valueAt(body, "components", "schemas") as object;
      for (const [, name] of JSON.stringify(body).matchAll(/#\/components\/schemas\/([^"]+)/g)) {
        expect(Object.keys(schemas), path).toContain(name);
      }
    }
  });

  it("describes custom kinds by their own schema", async () => {
    serve([...builtin, ...widgets()]);
    const { body } = await get("/openapi/v3/apis/example.com/v1");
    expect(valueAt(body, "components", "schemas", "com.example.v1.Widget")).toMatchObject({
      description: "A widget.",
      type: "object",
      "x-kubernetes-group-version-kind": [{ group: "example.com", kind: "Widget", version: "v1" }],
      properties: {
        metadata: { allOf: [{ $ref: "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta" }] },
        spec: { description: "what is wanted", required: ["n"], properties: { n: { type: "integer", minimum: 1 } } },
      },
    });
    const patch = valueAt(body, "paths", "/apis/example.com/v1/namespaces/{namespace}/widgets/{name}", "patch");
    expect(valueAt(patch, "x-kubernetes-group-version-kind")).toEqual({ group: "example.com", kind: "Widget", version: "v1" });
    expect((valueAt(patch, "parameters") as { name: string }[]).map(({ name }) => name)).toContain("fieldValidation");
  });
});

describe("OpenAPI v2", () => {
  it("is protobuf for a client that requests it, with its own ETag content", async () => {
    const accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    const first = await get("/openapi/v2", { accept });
    expect(first.headers).toMatchObject({
      "content-type": "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
      vary: "Accept",
    });
    const etag = first.headers?.["etag"] ?? "";
    expect(etag).not.toBe((await get("/openapi/v2")).headers?.["etag"]);
    expect((await get("/openapi/v2", { accept, "if-none-match": etag })).status).toBe(304);
    serve([...builtin, ...widgets()]);
    const second = await get("/openapi/v2", { accept, "if-none-match": etag });
    expect(second.status).toBe(200);
    expect(Buffer.from(second.body as Uint8Array).includes("com.example.v1.Widget")).toBe(true);
  });

  it("contains patch strategies and kinds, and custom schemas without keywords that v2 lacks", async () => {
    const [resource] = widgets();
    if (resource === undefined) throw new Error("Widgets are not served");
    const spec = { type: "object", properties: { a: { type: "string", nullable: true, anyOf: [{ minLength: 1 }] } } } as const;
    serve([...builtin, { ...resource, schema: { ...resource.schema, properties: { ...resource.schema.properties, spec } } }]);
    const { body } = await get("/openapi/v2");
    expect(valueAt(body, "swagger")).toBe("2.0");
    const definition = (name: string, ...steps: string[]): unknown => valueAt(body, "definitions", name, ...steps);
    expect(definition("com.example.v1.Widget", "properties", "spec")).toEqual({ type: "object", properties: { a: {} } });
    const meta = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    expect(definition(meta, "properties", "finalizers", "x-kubernetes-patch-strategy")).toBe("merge");
    expect(definition(meta, "properties", "ownerReferences", "x-kubernetes-patch-merge-key")).toBe("uid");
    expect(definition("io.k8s.api.core.v1.ConfigMap", "x-kubernetes-group-version-kind")).toEqual([
      { group: "", kind: "ConfigMap", version: "v1" },
    ]);
  });

  it("contains every schema that it refers to", async () => {
    const { body } = await get("/openapi/v2");
    const names = Object.keys(valueAt(body, "definitions") as object);
    for (const [, name] of JSON.stringify(body).matchAll(/#\/definitions\/([^"]+)/g)) expect(names).toContain(name);
  });
});
