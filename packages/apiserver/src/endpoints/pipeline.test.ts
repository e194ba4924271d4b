import { jsonEquals, type KubernetesObject } from "@keelson/api-machinery";
import { createVirtualClock, type VirtualClock } from "@keelson/api-machinery/testing";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { systemUser } from "../system-user.ts";
import { startTestEnvironment, type TestEnvironment } from "../testing/test-environment.ts";
import type { Outcome, PipelineRequest, WatchedEvent } from "./outcome.ts";

let clock: VirtualClock;
let environment: TestEnvironment;

beforeEach(async () => {
  clock = createVirtualClock();
  environment = await startTestEnvironment({ clock, crds: [widgets] });
});
afterEach(() => environment.stop());

const widgets = {
  apiVersion: "apiextensions.k8s.io/v1",
  kind: "CustomResourceDefinition",
  metadata: { name: "widgets.example.com" },
  spec: {
    group: "example.com",
    scope: "Namespaced",
    names: { plural: "widgets", singular: "widget", kind: "Widget", listKind: "WidgetList" },
    versions: ["v1", "v2"].map((name) => ({
      name,
      served: true,
      storage: name === "v1",
      schema: {
        openAPIV3Schema: {
          type: "object",
          properties: {
            spec: {
              type: "object",
              properties: { n: { type: "integer", default: 7 }, s: { type: "string" }, replicas: { type: "integer" } },
            },
            status: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
          },
        },
      },
      subresources: { status: {}, scale: { specReplicasPath: ".spec.replicas", statusReplicasPath: ".status.replicas" } },
    })),
  },
};

type TestResponse = { code: number; body: Body; outcome: Outcome };
/** The body of a response, which tests read without types. */
type Body = Record<string, ReturnType<typeof JSON.parse>>;

async function send(
  method: PipelineRequest["method"],
  path: string,
  options: Partial<PipelineRequest> & { type?: string } = {},
): Promise<TestResponse> {
  const { type, ...rest } = options;
  const headers: Record<string, string> = type === undefined ? {} : { "content-type": type };
  const outcome = await environment.handle({ method, path, user: systemUser, userAgent: "tester/1", headers, ...rest });
  switch (outcome.kind) {
    case "object": {
      const body = JSON.parse(Buffer.from(outcome.object.bytes).toString());
      if (!jsonEquals(body, outcome.object.object)) throw new Error("bytes and object differ");
      return { code: outcome.status, body, outcome };
    }
    case "status":
      return { code: outcome.status.code ?? 200, body: outcome.status, outcome };
    case "list":
      return {
        code: 200,
        body: { metadata: outcome.listMeta, items: outcome.items.map(({ object }) => object), kind: outcome.resource.listKind },
        outcome,
      };
    default:
      return { code: 200, body: {}, outcome };
  }
}

const maps = "/api/v1/namespaces/default/configmaps";
const customs = "/apis/example.com/v1/namespaces/default/widgets";
const map = (name: string, more: object = {}, metadata: object = {}): unknown => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name, ...metadata },
  ...more,
});
const widget = (name: string, spec: object = {}, metadata: object = {}): unknown => ({
  apiVersion: "example.com/v1",
  kind: "Widget",
  metadata: { name, ...metadata },
  spec,
});
const merge = "application/merge-patch+json";
const names = ({ body }: TestResponse): string[] => body["items"].map((item: KubernetesObject) => item.metadata.name);

async function watch(
  path: string,
  query: Record<string, string> = {},
): Promise<{ seen: string[]; events: WatchedEvent[]; ended: () => boolean; close(): void }> {
  const { outcome } = await send("GET", path, { query: { watch: "1", ...query } });
  if (outcome.kind !== "watch") throw new Error(JSON.stringify(outcome));
  const events: WatchedEvent[] = [];
  const seen: string[] = [];
  let hasEnded = false;
  const { close } = outcome.open({
    events(batch) {
      events.push(...batch);
      for (const event of batch) {
        seen.push(
          event.type === "ERROR" ? `ERROR ${event.status.code}` : `${event.type} ${event.object.object.metadata.name ?? ""}`,
        );
      }
    },
    end() {
      hasEnded = true;
    },
  });
  return { seen, events, ended: () => hasEnded, close };
}

describe("create", () => {
  it("sets server-owned fields and drops values that clients may not set", async () => {
    const { code, body } = await send("POST", maps, {
      body: map(
        "c",
        { data: { a: "1" }, nonsense: 1 },
        { uid: "mine", creationTimestamp: "2001-01-01T00:00:00Z", deletionTimestamp: "2001-01-01T00:00:00Z" },
      ),
    });
    expect(code).toBe(201);
    expect(body).toMatchObject({ apiVersion: "v1", kind: "ConfigMap", data: { a: "1" } });
    expect(body["nonsense"]).toBeUndefined();
    const { metadata } = body;
    expect(metadata).toMatchObject({ name: "c", namespace: "default", creationTimestamp: "2026-01-01T00:00:00Z" });
    expect(metadata.uid).toMatch(/^[0-9a-f-]{36}$/);
    expect(metadata.deletionTimestamp).toBeUndefined();
    expect(metadata.generation).toBeUndefined();
    expect(metadata.managedFields).toMatchObject([{ manager: "tester", operation: "Update", apiVersion: "v1" }]);
    expect((await send("GET", `${maps}/c`)).body).toEqual(body);
  });

  it("defaults and prunes custom resources and starts their generation", async () => {
    const { body } = await send("POST", customs, { body: widget("w", { s: "x", extra: 1 }) });
    expect(body).toMatchObject({ spec: { n: 7, s: "x" }, metadata: { generation: 1 } });
    expect(body["spec"].extra).toBeUndefined();
  });

  it("generates a name, and requires name or generateName", async () => {
    const { body } = await send("POST", maps, { body: map("", {}, { name: undefined, generateName: "part-" }) });
    expect(body["metadata"].name).toMatch(/^part-[bcdfghjklmnpqrstvwxz2456789]{5}$/);
    const neither = await send("POST", maps, { body: { metadata: {} } });
    expect(neither).toMatchObject({
      code: 422,
      body: { reason: "Invalid", details: { causes: [{ reason: "FieldValueRequired", field: "metadata.name" }] } },
    });
  });

  it("rejects an existing name, a missing namespace and a terminating namespace", async () => {
    await send("POST", maps, { body: map("c") });
    expect(await send("POST", maps, { body: map("c") })).toMatchObject({
      code: 409,
      body: { reason: "AlreadyExists", message: 'configmaps "c" already exists', details: { name: "c", kind: "configmaps" } },
    });
    expect(await send("POST", "/api/v1/namespaces/nope/configmaps", { body: map("c") })).toMatchObject({
      code: 404,
      body: { message: 'namespaces "nope" not found', details: { name: "nope", kind: "namespaces" } },
    });
    await send("POST", "/api/v1/namespaces", { body: { metadata: { name: "terminating" } } });
    expect(await send("DELETE", "/api/v1/namespaces/terminating")).toMatchObject({
      code: 200,
      body: { status: { phase: "Terminating" } },
    });
    expect(await send("POST", "/api/v1/namespaces/terminating/configmaps", { body: map("c") })).toMatchObject({
      code: 403,
      body: { details: { causes: [{ reason: "NamespaceTerminating", field: "metadata.namespace" }] } },
    });
  });

  it("reports invalid names, labels, types and bodies", async () => {
    const causes = async (body: unknown): Promise<unknown> => (await send("POST", maps, { body })).body["details"]?.causes;
    expect(await causes(map("Upper"))).toMatchObject([{ reason: "FieldValueInvalid", field: "metadata.name" }]);
    expect(await causes(map("a", {}, { labels: { k: "no spaces" } }))).toMatchObject([{ field: "metadata.labels" }]);
    expect(await causes(map("a", {}, { annotations: { "bad/key/x": "" } }))).toMatchObject([{ field: "metadata.annotations" }]);
    for (const body of [
      undefined,
      [],
      "hello",
      map("x", { data: { a: 5 } }),
      map("x", {}, { labels: { k: 5 } }),
      { metadata: "x" },
    ]) {
      expect((await send("POST", maps, { body })).code).toBe(400);
    }
    expect((await send("POST", maps, { body: { apiVersion: "v1", kind: "Secret", metadata: { name: "x" } } })).code).toBe(400);
    expect((await send("POST", customs, { body: { ...(widget("x") as object), kind: "Gadget" } })).body).toMatchObject({
      code: 422,
      details: { kind: "Gadget", causes: [{ field: "kind" }] },
    });
    let deep: unknown = {};
    for (let i = 0; i < 400; i++) deep = { a: deep };
    expect((await send("POST", customs, { body: widget("x", { s: deep }) })).code).toBe(400);
    expect((await send("POST", maps, { body: map("x"), bodyBytes: 4_000_000 })).code).toBe(413);
  });

  it("warns about unknown fields, rejects them with Strict, and ignores them with Ignore", async () => {
    const create = (fieldValidation: string, name: string) =>
      send("POST", customs, { body: widget(name, { extra: 1 }), query: { fieldValidation } });
    const warned = await create("Warn", "a");
    expect(warned.outcome).toMatchObject({ kind: "object", warnings: ['unknown field "spec.extra"'] });
    expect(await create("Strict", "b")).toMatchObject({ code: 400, body: { message: expect.stringContaining("spec.extra") } });
    expect((await create("Ignore", "c")).outcome).not.toHaveProperty("warnings");
  });

  it("reports unknown and duplicate fields of a built-in kind in document order", async () => {
    const body = map("a", { extra: 1, data: { a: "b" }, other: 2 });
    const fieldPositions = new Map([
      ["extra", 10],
      ["data", 20],
      ["other", 15],
    ]);
    const request = { body, duplicateFields: ["data"], fieldPositions, query: { fieldValidation: "Strict" } };
    const { body: status } = await send("POST", maps, request);
    expect(status).toMatchObject({
      code: 400,
      message: expect.stringContaining('unknown field "extra", unknown field "other", duplicate field "data"'),
    });
  });

  it("does everything except store the object with dryRun", async () => {
    const { code, body } = await send("POST", maps, { body: map("c"), query: { dryRun: "All" } });
    expect(code).toBe(201);
    expect(body["metadata"].uid).toBeDefined();
    expect(body["metadata"].resourceVersion).toBeUndefined();
    expect((await send("GET", `${maps}/c`)).code).toBe(404);
    expect((await send("POST", maps, { body: map("c"), query: { dryRun: "Some" } })).body).toMatchObject({
      code: 422,
      details: { group: "meta.k8s.io", kind: "CreateOptions", causes: [{ field: "dryRun" }] },
    });
  });

  it("treats a key named __proto__ as data", async () => {
    const body = JSON.parse('{"metadata":{"name":"c","__proto__":{"x":1}},"data":{"__proto__":"y"}}');
    const answer = await send("POST", maps, { body });
    expect(Object.hasOwn(answer.body["data"] ?? {}, "__proto__")).toBe(true);
    expect(({} as Record<string, unknown>)["y"]).toBeUndefined();
    expect(Object.prototype).not.toHaveProperty("x");
  });
});

describe("update", () => {
  it("replaces an object, conflicts at a stale resourceVersion, and overwrites without one", async () => {
    const { body: created } = await send("POST", maps, { body: map("c", { data: { n: "0" } }) });
    const { body: first } = await send("PUT", `${maps}/c`, { body: { ...created, data: { n: "1" } } });
    expect(first["data"]).toEqual({ n: "1" });
    expect(await send("PUT", `${maps}/c`, { body: { ...created, data: { n: "2" } } })).toMatchObject({
      code: 409,
      body: {
        reason: "Conflict",
        message:
          'Operation cannot be fulfilled on configmaps "c": the object has been modified; please apply your changes to the latest version and try again',
      },
    });
    expect((await send("PUT", `${maps}/c`, { body: map("c", { data: { n: "3" } }) })).body["metadata"].uid).toBe(
      created["metadata"].uid,
    );
  });

  it("skips writes that change nothing", async () => {
    const { body: created } = await send("POST", maps, { body: map("c", { data: { n: "0" } }) });
    await clock.advance(5_000);
    const { body } = await send("PUT", `${maps}/c`, { body: created });
    expect(body).toEqual(created);
    expect(environment.store.revision).toBe(Number(created["metadata"].resourceVersion));
  });

  it("increments the generation with spec, not with metadata or status", async () => {
    await send("POST", customs, { body: widget("w", { n: 1 }) });
    const generation = async (patch: object, path = `${customs}/w`): Promise<number> =>
      (await send("PATCH", path, { body: patch, type: merge })).body["metadata"].generation;
    expect(await generation({ metadata: { labels: { a: "b" } } })).toBe(1);
    expect(await generation({ spec: { n: 2 } })).toBe(2);
    expect(await generation({ spec: { n: 2 }, metadata: { generation: 77 } })).toBe(2);
    expect(await generation({ status: { ok: true } }, `${customs}/w/status`)).toBe(2);
  });

  it("requires a resourceVersion for custom resources, matching names and an unchanged uid", async () => {
    await send("POST", customs, { body: widget("w") });
    expect(await send("PUT", `${customs}/w`, { body: widget("w", { n: 2 }) })).toMatchObject({
      code: 422,
      body: { details: { kind: "widgets", causes: [{ field: "metadata.resourceVersion" }] } },
    });
    await send("POST", maps, { body: map("c") });
    expect((await send("PUT", `${maps}/c`, { body: map("d") })).code).toBe(400);
    expect((await send("PUT", `${maps}/c`, { body: { metadata: {} } })).code).toBe(400);
    expect((await send("PUT", `${maps}/c`, { body: map("c", {}, { namespace: "other" }) })).code).toBe(400);
    expect((await send("PUT", `${maps}/c`, { body: map("c", {}, { uid: "x" }) })).code).toBe(409);
    expect((await send("PATCH", `${maps}/c`, { body: { metadata: { uid: "x" } }, type: merge })).code).toBe(422);
    expect((await send("PUT", `${maps}/nope`, { body: map("nope") })).code).toBe(404);
  });

  it("writes status, and only status, through its subresource", async () => {
    await send("POST", customs, { body: { ...(widget("w", { n: 1 }) as object), status: { ok: 1 } } });
    const { body: created } = await send("GET", `${customs}/w`);
    expect(created["status"]).toBeUndefined();
    const { body } = await send("PUT", `${customs}/w/status`, {
      body: { ...created, status: { ok: 2 }, spec: { n: 5 }, metadata: { ...created["metadata"], labels: { a: "b" } } },
    });
    expect(body).toMatchObject({ spec: { n: 1 }, status: { ok: 2 }, metadata: { generation: 1 } });
    expect(body["metadata"].labels).toBeUndefined();
    const { body: main } = await send("PUT", `${customs}/w`, { body: { ...body, spec: { n: 3 }, status: { ok: 9 } } });
    expect(main).toMatchObject({ spec: { n: 3 }, status: { ok: 2 }, metadata: { generation: 2 } });
    expect((await send("GET", `${maps}/w/status`)).code).toBe(404);
  });

  it.each([8, 24])("applies all of %i concurrent patches without a resourceVersion", async (count) => {
    await send("POST", maps, { body: map("c", { data: {} }) });
    const data = Object.fromEntries(Array.from({ length: count }, (_, index) => [`k${index}`, "1"]));
    const answers = await Promise.all(
      Object.keys(data).map((key) => send("PATCH", `${maps}/c`, { body: { data: { [key]: "1" } }, type: merge })),
    );
    expect(answers.filter(({ code }) => code !== 200)).toEqual([]);
    expect((await send("GET", `${maps}/c`)).body["data"]).toEqual(data);
  });

  it("fails a patch that names an outdated resourceVersion", async () => {
    const { body } = await send("POST", maps, { body: map("c", { data: {} }) });
    const patch = { metadata: { resourceVersion: body["metadata"].resourceVersion }, data: { a: "1" } };
    const answers = await Promise.all([1, 2].map(() => send("PATCH", `${maps}/c`, { body: patch, type: merge })));
    expect(answers.map(({ code }) => code).sort()).toEqual([200, 409]);
  });

  it("reads and writes versions other than the storage version", async () => {
    const second = "/apis/example.com/v2/namespaces/default/widgets";
    await send("POST", second, { body: { ...(widget("w", { n: 1 }) as object), apiVersion: "example.com/v2" } });
    expect((await send("GET", `${customs}/w`)).body["apiVersion"]).toBe("example.com/v1");
    const { body } = await send("GET", `${second}/w`);
    expect(body["apiVersion"]).toBe("example.com/v2");
    const { body: updated } = await send("PUT", `${second}/w`, { body: { ...body, spec: { n: 2 } } });
    expect(updated).toMatchObject({ apiVersion: "example.com/v2", spec: { n: 2 } });
    const stored = environment.store.get("example.com/widgets/default/w");
    expect(stored?.object.apiVersion).toBe("example.com/v1");
    expect((await send("GET", second)).body["items"][0].apiVersion).toBe("example.com/v2");
  });
});

describe("patch", () => {
  it("selects the patch type by Content-Type, and rejects strategic merge patches of custom resources", async () => {
    await send("POST", maps, { body: map("c", { data: { a: "1" } }) });
    await send("POST", customs, { body: widget("w") });
    const json = await send("PATCH", `${maps}/c`, {
      body: [{ op: "replace", path: "/data/a", value: "2" }],
      type: "application/json-patch+json",
    });
    expect(json.body["data"]).toEqual({ a: "2" });
    const strategic = await send("PATCH", `${maps}/c`, {
      body: { data: { b: "3" } },
      type: "application/strategic-merge-patch+json",
    });
    expect(strategic.body["data"]).toEqual({ a: "2", b: "3" });
    expect((await send("PATCH", `${customs}/w`, { body: {}, type: "application/strategic-merge-patch+json" })).code).toBe(415);
    expect((await send("PATCH", `${maps}/c`, { body: {}, type: "application/json" })).code).toBe(415);
    const failed = await send("PATCH", `${maps}/c`, {
      body: [{ op: "test", path: "/data/a", value: "9" }],
      type: "application/json-patch+json",
    });
    expect(failed).toMatchObject({ code: 422, body: { reason: "Invalid" } });
  });

  it("serves concurrent applies of a new object: one creates it, the others update it", async () => {
    const type = "application/apply-patch+yaml";
    const apply = (manager: string) =>
      send("PATCH", `${maps}/c`, { body: map("c", { data: { [manager]: "1" } }), type, query: { fieldManager: manager } });
    const responses = await Promise.all(["a", "b", "c"].map(apply));
    expect(responses.map(({ code }) => code).sort()).toEqual([200, 200, 201]);
    expect((await send("GET", `${maps}/c`)).body["data"]).toEqual({ a: "1", b: "1", c: "1" });
  });

  it("applies: creates, merges, reports conflicts by field, and takes ownership if forced", async () => {
    const type = "application/apply-patch+yaml";
    const apply = (manager: string, data: object, more: Record<string, string> = {}) =>
      send("PATCH", `${maps}/c`, { body: map("c", { data }), type, query: { fieldManager: manager, ...more } });
    expect((await apply("alice", { a: "1", b: "2" })).code).toBe(201);
    expect((await apply("bob", { c: "3" })).code).toBe(200);
    expect(await apply("bob", { a: "9" })).toMatchObject({
      code: 409,
      body: { details: { causes: [{ reason: "FieldManagerConflict", field: ".data.a" }] } },
    });
    const forced = await apply("bob", { a: "9" }, { force: "true" });
    expect(forced.body["data"]).toEqual({ a: "9", b: "2" });
    expect(await send("PATCH", `${maps}/c`, { body: map("c"), type })).toMatchObject({
      code: 422,
      body: { details: { kind: "PatchOptions", causes: [{ field: "fieldManager" }] } },
    });
    const before = environment.store.revision;
    await clock.advance(2_000);
    expect((await apply("bob", { a: "9" })).code).toBe(200);
    expect(environment.store.revision).toBe(before);
  });
});

describe("scale", () => {
  it("reads and writes the replicas of the object, and increments its generation", async () => {
    await send("POST", customs, { body: widget("w", { replicas: 2 }) });
    const { body } = await send("GET", `${customs}/w/scale`);
    expect(body).toMatchObject({ apiVersion: "autoscaling/v1", kind: "Scale", spec: { replicas: 2 }, status: { replicas: 0 } });
    const { body: put } = await send("PUT", `${customs}/w/scale`, { body: { ...body, spec: { replicas: 5 } } });
    expect(put["spec"]).toEqual({ replicas: 5 });
    expect((await send("PUT", `${customs}/w/scale`, { body: { ...body, spec: { replicas: 6 } } })).code).toBe(409);
    expect((await send("PATCH", `${customs}/w/scale`, { body: { spec: { replicas: 4 } }, type: merge })).body["spec"]).toEqual({
      replicas: 4,
    });
    expect(await send("PATCH", `${customs}/w/scale`, { body: { spec: { replicas: -1 } }, type: merge })).toMatchObject({
      code: 422,
      body: { details: { group: "example.com", kind: "Widget", causes: [{ field: ".spec.replicas" }] } },
    });
    expect((await send("GET", `${customs}/w`)).body).toMatchObject({ spec: { replicas: 4 }, metadata: { generation: 3 } });
  });
});

describe("delete", () => {
  it("removes the object and returns a Status with its uid", async () => {
    const { body } = await send("POST", maps, { body: map("c") });
    expect((await send("DELETE", `${maps}/c`)).body).toMatchObject({
      status: "Success",
      details: { name: "c", kind: "configmaps", uid: body["metadata"].uid },
    });
    expect((await send("DELETE", `${maps}/c`)).code).toBe(404);
  });

  it("waits for finalizers, rejects new ones, and removes the object with the last one", async () => {
    await send("POST", customs, { body: widget("w", {}, { finalizers: ["example.com/one", "example.com/two"] }) });
    const { body } = await send("DELETE", `${customs}/w`);
    expect(body["metadata"]).toMatchObject({
      deletionTimestamp: "2026-01-01T00:00:00Z",
      deletionGracePeriodSeconds: 0,
      generation: 2,
    });
    expect((await send("DELETE", `${customs}/w`)).body).toEqual(body);
    const patch = (metadata: object) => send("PATCH", `${customs}/w`, { body: { metadata }, type: merge });
    expect(await patch({ finalizers: ["example.com/one", "example.com/two", "example.com/three"] })).toMatchObject({
      code: 422,
      body: { details: { causes: [{ reason: "FieldValueForbidden", field: "metadata.finalizers" }] } },
    });
    expect((await patch({ deletionTimestamp: null, labels: { a: "b" } })).body["metadata"].deletionTimestamp).toBeDefined();
    expect((await send("POST", customs, { body: widget("w") })).body["message"]).toMatch(/^object is being deleted: /);
    expect((await patch({ finalizers: ["example.com/two"] })).code).toBe(200);
    const last = await patch({ finalizers: null });
    expect(last.code).toBe(200);
    expect(last.body["metadata"].resourceVersion).toBe(String(environment.store.revision));
    expect((await send("GET", `${customs}/w`)).code).toBe(404);
  });

  it("marks a Pod with a grace period of 0 before it is deleted, and returns the revision of the deletion", async () => {
    const pods = "/api/v1/namespaces/default/pods";
    const pod = { metadata: { name: "p" }, spec: { nodeName: "n", containers: [{ name: "c", image: "i" }] } };
    await send("POST", pods, { body: pod });
    const { events, seen, close } = await watch(pods);
    expect((await send("DELETE", `${pods}/p`)).body["metadata"].deletionGracePeriodSeconds).toBe(30);
    const { body } = await send("DELETE", `${pods}/p`, { body: { gracePeriodSeconds: 0 } });
    expect(seen).toEqual(["ADDED p", "MODIFIED p", "MODIFIED p", "DELETED p"]);
    expect(events[2]).toMatchObject({ object: { object: { metadata: { deletionGracePeriodSeconds: 0 } } } });
    expect(body["metadata"]).toMatchObject({
      deletionGracePeriodSeconds: 0,
      resourceVersion: String(environment.store.revision),
    });
    close();
  });

  it("honours preconditions, policies and dry runs", async () => {
    const { body } = await send("POST", maps, { body: map("c") });
    const remove = (options?: object, query: Record<string, string> = {}) =>
      send("DELETE", `${maps}/c`, { ...(options === undefined ? {} : { body: options }), query });
    expect((await remove({ preconditions: { uid: "x" } })).code).toBe(409);
    expect((await remove({ preconditions: { resourceVersion: "1" } })).code).toBe(409);
    expect((await remove({ propagationPolicy: "Sideways" })).code).toBe(422);
    expect((await remove({ propagationPolicy: "Orphan", orphanDependents: true })).code).toBe(422);
    expect((await remove(undefined, { dryRun: "All" })).code).toBe(200);
    expect((await remove({ dryRun: ["All"] })).code).toBe(200);
    expect((await send("GET", `${maps}/c`)).code).toBe(200);
    const { uid } = body["metadata"];
    expect((await remove({ preconditions: { uid }, propagationPolicy: "Foreground" })).body["metadata"].finalizers).toEqual([
      "foregroundDeletion",
    ]);
    expect((await remove({ propagationPolicy: "Orphan" })).body["metadata"].finalizers).toEqual(["orphan"]);
    expect((await remove({ propagationPolicy: "Background" })).code).toBe(200);
    expect((await send("GET", `${maps}/c`)).code).toBe(404);
  });

  it("keeps a Namespace until its spec is finalized, and rejects the deletion of system namespaces", async () => {
    await send("POST", "/api/v1/namespaces", { body: { metadata: { name: "n" } } });
    const { body } = await send("DELETE", "/api/v1/namespaces/n");
    expect(body).toMatchObject({ status: { phase: "Terminating" }, spec: { finalizers: ["kubernetes"] } });
    const { code } = await send("PUT", "/api/v1/namespaces/n/finalize", { body: { ...body, spec: {} } });
    expect(code).toBe(200);
    expect((await send("GET", "/api/v1/namespaces/n")).code).toBe(404);
    expect((await send("DELETE", "/api/v1/namespaces/default")).code).toBe(403);
  });

  it("deletes a collection by selector and returns the deleted objects", async () => {
    for (const [name, k] of [
      ["a", "x"],
      ["b", "x"],
      ["c", "y"],
    ])
      await send("POST", maps, { body: map(name ?? "", {}, { labels: { k } }) });
    const answer = await send("DELETE", maps, { query: { labelSelector: "k=x" } });
    expect(names(answer)).toEqual(["a", "b"]);
    expect(names(await send("GET", maps, { query: { labelSelector: "k" } }))).toEqual(["c"]);
    expect((await send("DELETE", "/api/v1/configmaps")).code).toBe(405);
  });
});

describe("list", () => {
  beforeEach(async () => {
    for (const name of ["a", "b", "c", "d", "e"]) {
      await send("POST", customs, { body: widget(name, {}, { labels: { set: name < "d" ? "x" : "y" } }) });
    }
  });

  it("pages through one snapshot despite concurrent writes", async () => {
    const first = await send("GET", customs, { query: { limit: "2" } });
    expect(names(first)).toEqual(["a", "b"]);
    expect(first.body["metadata"].remainingItemCount).toBe(3);
    await send("DELETE", `${customs}/c`);
    await send("POST", customs, { body: widget("f") });
    const second = await send("GET", customs, { query: { limit: "2", continue: first.body["metadata"].continue } });
    expect(names(second)).toEqual(["c", "d"]);
    expect(second.body["metadata"].resourceVersion).toBe(first.body["metadata"].resourceVersion);
    const third = await send("GET", customs, { query: { limit: "2", continue: second.body["metadata"].continue } });
    expect(names(third)).toEqual(["e"]);
    expect(third.body["metadata"].continue).toBeUndefined();
    expect((await send("GET", customs, { query: { continue: "rubbish" } })).code).toBe(400);
  });

  it("fills pages that have a selector, without remainingItemCount", async () => {
    const first = await send("GET", customs, { query: { limit: "2", labelSelector: "set=x" } });
    expect(names(first)).toEqual(["a", "b"]);
    expect(first.body["metadata"].remainingItemCount).toBeUndefined();
    const second = await send("GET", customs, {
      query: { limit: "2", labelSelector: "set=x", continue: first.body["metadata"].continue },
    });
    expect(names(second)).toEqual(["c"]);
    expect(
      names(await send("GET", customs, { query: { fieldSelector: "metadata.name!=a", labelSelector: "set in (x)" } })),
    ).toEqual(["b", "c"]);
    expect((await send("GET", customs, { query: { fieldSelector: "spec.x=1" } })).code).toBe(400);
    expect((await send("GET", customs, { query: { labelSelector: "a b" } })).code).toBe(400);
  });

  it("reads at exactly a resourceVersion or not older than one, and rejects invalid combinations", async () => {
    const { body } = await send("GET", `${customs}/c`);
    const at = body["metadata"].resourceVersion;
    const list = (query: Record<string, string>) => send("GET", customs, { query });
    expect(names(await list({ resourceVersion: at, resourceVersionMatch: "Exact" }))).toEqual(["a", "b", "c"]);
    expect(names(await list({ resourceVersion: at, resourceVersionMatch: "NotOlderThan" })).length).toBe(5);
    expect(names(await list({ resourceVersion: "0" })).length).toBe(5);
    expect((await list({ resourceVersionMatch: "Exact" })).code).toBe(422);
    expect((await list({ resourceVersion: "1", resourceVersionMatch: "Sometimes" })).code).toBe(422);
    expect((await list({ resourceVersion: "0", resourceVersionMatch: "Exact" })).code).toBe(422);
    expect((await list({ resourceVersion: "x" })).code).toBe(400);
  });

  it("omits apiVersion and kind from items of built-in kinds", async () => {
    await send("POST", maps, { body: map("c", { data: { a: "1" } }) });
    const { outcome } = await send("GET", maps);
    if (outcome.kind !== "list") throw new Error(outcome.kind);
    const bytes = Buffer.from(outcome.items[0]?.bytes ?? []).toString();
    expect(JSON.parse(`{${bytes.slice(outcome.itemSkip)}`)).toEqual({ metadata: expect.anything(), data: { a: "1" } });
  });
});

describe("watch", () => {
  it("continues from a list without gaps or duplicates, as objects enter and leave the selection", async () => {
    const { body } = await send("GET", maps);
    await send("POST", maps, { body: map("a", {}, { labels: { on: "no" } }) });
    const { seen, events } = await watch(maps, { resourceVersion: body["metadata"].resourceVersion, labelSelector: "on=yes" });
    const label = (on: string) => send("PATCH", `${maps}/a`, { body: { metadata: { labels: { on } } }, type: merge });
    await label("yes");
    await send("PATCH", `${maps}/a`, { body: { data: { n: "2" } }, type: merge });
    const left = await label("no");
    await send("DELETE", `${maps}/a`);
    expect(seen).toEqual(["ADDED a", "MODIFIED a", "DELETED a"]);
    expect(events[2]).toMatchObject({
      object: { object: { metadata: { labels: { on: "yes" }, resourceVersion: left.body["metadata"].resourceVersion } } },
    });
  });

  it("starts with existing objects if resourceVersion is unset or 0, and ends at its timeout", async () => {
    await send("POST", maps, { body: map("a") });
    const unset = await watch(maps, { timeoutSeconds: "10" });
    const zero = await watch(maps, { resourceVersion: "0" });
    await send("POST", maps, { body: map("b") });
    expect(unset.seen).toEqual(["ADDED a", "ADDED b"]);
    expect(zero.seen).toEqual(["ADDED a", "ADDED b"]);
    await clock.advance(10_000);
    expect(unset.ended()).toBe(true);
    expect(environment.server.openWatches).toBe(1);
    zero.close();
    expect(environment.server.openWatches).toBe(0);
    expect(clock.pendingTimers).toBe(0);
  });

  it("sends requested bookmarks each minute and before a short watch ends", async () => {
    const query = { allowWatchBookmarks: "true", resourceVersion: String(environment.store.revision) };
    const long = await watch(maps, query);
    const short = await watch(maps, { ...query, timeoutSeconds: "5" });
    const none = await watch(maps);
    await clock.advance(120_000);
    expect(long.seen).toEqual(["BOOKMARK ", "BOOKMARK "]);
    expect(short.seen).toEqual(["BOOKMARK "]);
    expect(none.seen).toEqual([]);
    const [mark] = long.events;
    expect(mark).toMatchObject({
      object: {
        object: { kind: "ConfigMap", apiVersion: "v1", metadata: { resourceVersion: String(environment.store.revision) } },
      },
    });
  });

  it("marks the end of the initial events", async () => {
    await send("POST", maps, { body: map("a") });
    const query = { sendInitialEvents: "true", resourceVersionMatch: "NotOlderThan", allowWatchBookmarks: "true" };
    const { seen, events } = await watch(maps, query);
    expect(seen).toEqual(["ADDED a", "BOOKMARK "]);
    expect(events[1]).toMatchObject({
      object: { object: { metadata: { annotations: { "k8s.io/initial-events-end": "true" } } } },
    });
    // A watch from no version or from 0 asks for the initial events as well.
    const versions: readonly Record<string, string>[] = [{}, { resourceVersion: "0" }];
    for (const version of versions) {
      const { seen: implied } = await watch(maps, { allowWatchBookmarks: "true", ...version });
      expect(implied).toEqual(["ADDED a", "BOOKMARK "]);
    }
    expect((await send("GET", maps, { query: { watch: "1", sendInitialEvents: "true" } })).code).toBe(422);
    expect((await send("GET", maps, { query: { watch: "1", continue: "abc" } })).code).toBe(422);
    const later = await watch(maps, { ...query, sendInitialEvents: "false" });
    await send("POST", maps, { body: map("b") });
    expect(later.seen).toEqual(["ADDED b"]);
  });

  it("sends a long initial state in slices, then its end bookmark, then the changes made meanwhile", {
    timeout: 30_000,
  }, async () => {
    const all = Array.from({ length: 2_600 }, (_, index) => `n${String(index).padStart(4, "0")}`);
    await Promise.all(all.map((name) => send("POST", maps, { body: map(name) })));
    const { revision } = environment.store;
    const query = { sendInitialEvents: "true", resourceVersionMatch: "NotOlderThan", allowWatchBookmarks: "true" };
    const writing = send("POST", maps, { body: map("a-live") });
    const { seen, events, close } = await watch(maps, query);
    expect(seen).toHaveLength(250);
    const other = await watch(maps, query);
    other.close();
    await writing;
    await vi.waitFor(() => expect(seen.at(-1)).toBe("ADDED a-live"), { timeout: 25_000, interval: 1 });
    expect(seen).toEqual([...all.map((name) => `ADDED ${name}`), "BOOKMARK ", "ADDED a-live"]);
    expect(events[all.length]).toMatchObject({ object: { object: { metadata: { resourceVersion: String(revision) } } } });
    expect(other.seen).toHaveLength(250);
    close();
  });

  it("reports an expired resourceVersion with an ERROR event, and bad requests with a Status", async () => {
    for (let i = 0; i < 3; i++) {
      await clock.advance(700_000);
      await send("POST", maps, { body: map(`x${i}`) });
    }
    const { seen, ended } = await watch(maps, { resourceVersion: "1" });
    expect(seen).toEqual(["ERROR 410"]);
    expect(ended()).toBe(true);
    expect((await send("GET", maps, { query: { watch: "1", fieldSelector: "spec.x=1" } })).code).toBe(400);
    expect((await send("GET", "/api/v1/namespaces/default/nothings", { query: { watch: "1" } })).code).toBe(404);
  });
});

describe("the pipeline", () => {
  it("rejects unknown paths and unsupported methods as kube-apiserver does", async () => {
    expect(await send("GET", "/api/v1/namespaces/default/nothings")).toMatchObject({
      code: 404,
      body: { message: "the server could not find the requested resource" },
    });
    expect((await send("GET", "/apis/apps/v9/namespaces/default/deployments")).code).toBe(404);
    expect((await send("POST", `${maps}/x`, { body: map("x") })).code).toBe(405);
    expect((await send("PUT", maps, { body: map("x") })).code).toBe(405);
    expect((await send("PATCH", maps, { body: {}, type: merge })).code).toBe(405);
    expect((await send("POST", "/api/v1/configmaps", { body: map("x") })).code).toBe(405);
    expect((await send("GET", "/nowhere")).code).toBe(404);
    expect((await send("GET", `${maps}/%zz`)).code).toBe(400);
  });

  it("authorizes first, and returns the authorizer's message", async () => {
    const user = { username: "eve", groups: ["system:authenticated"] };
    expect(await send("DELETE", `${maps}/c`, { user })).toMatchObject({
      code: 403,
      body: {
        reason: "Forbidden",
        message:
          'configmaps "c" is forbidden: User "eve" cannot delete resource "configmaps" in API group "" in the namespace "default"',
      },
    });
    expect((await send("GET", "/metrics", { user })).code).toBe(403);
  });

  it("creates the system namespaces when it starts", async () => {
    expect(names(await send("GET", "/api/v1/namespaces"))).toEqual([
      "default",
      "kube-node-lease",
      "kube-public",
      "kube-system",
    ]);
  });
});

describe("a long list", () => {
  const many = 620;
  const path = "/api/v1/namespaces/default/configmaps";
  const nameOf = (index: number): string => `m-${String(index).padStart(3, "0")}`;
  const make = async (name: string, labels: Record<string, string>): Promise<void> => {
    const body = { apiVersion: "v1", kind: "ConfigMap", metadata: { name, labels } };
    expect((await send("POST", path, { body })).code).toBe(201);
  };
  beforeEach(async () => {
    await Promise.all(Array.from({ length: many }, (_, index) => make(nameOf(index), index % 2 === 0 ? { even: "yes" } : {})));
  });

  it("has one resourceVersion, and does not delay other requests", async () => {
    let isListed = false;
    const listing = send("GET", path).finally(() => {
      isListed = true;
    });
    await new Promise((resolve) => setImmediate(resolve));
    expect((await send("GET", `${path}/${nameOf(7)}`)).code).toBe(200);
    expect(isListed).toBe(false);
    await Promise.all([make("a-first", {}), send("DELETE", `${path}/${nameOf(many - 1)}`)]);
    const { body } = await listing;
    expect(body["items"].length).toBe(many);
    expect(body["items"].at(-1).metadata.name).toBe(nameOf(many - 1));
    const now = await send("GET", path);
    expect(now.body["items"][0].metadata.name).toBe("a-first");
    expect(Number(now.body["metadata"].resourceVersion)).toBe(Number(body["metadata"].resourceVersion) + 2);
  });

  it("is complete in pages, with and without a selector, and counts the remaining items", async () => {
    const sizes = async (query: Record<string, string>): Promise<(number | undefined)[]> => {
      const found: (number | undefined)[] = [];
      let token: string | undefined;
      do {
        const { body } = await send("GET", path, { query: { ...query, ...(token === undefined ? {} : { continue: token }) } });
        found.push(body["items"].length, body["metadata"].remainingItemCount);
        token = body["metadata"].continue;
      } while (token !== undefined);
      return found;
    };
    expect(await sizes({ limit: "400" })).toEqual([400, 220, 220, undefined]);
    expect(await sizes({ limit: "620" })).toEqual([620, undefined]);
    expect(await sizes({ limit: "300", labelSelector: "even=yes" })).toEqual([300, undefined, 10, undefined]);
    expect(await sizes({ labelSelector: "even=yes" })).toEqual([310, undefined]);
  });
});
