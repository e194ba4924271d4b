import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { draft, type JsonObject, type KubernetesObject } from "@keelson/api-machinery";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openStore } from "../storage/open-store.ts";
import { type Store, storageKey } from "../storage/store.ts";
import { cleanupFinalizer, crdResource, isConditionTrue } from "./crd/crd-spec.ts";
import { textAt, valueAt } from "./object-fields.ts";
import { createRegistry, type Registry } from "./registry.ts";
import { noReviews, widgetCrd } from "./testing/crd-samples.ts";

let dir: string;
let store: Store;
let registry: Registry;
const clock = createVirtualClock();
const errors: unknown[] = [];

const open = (): Registry => createRegistry({ store, clock, reviews: noReviews, onError: (error) => errors.push(error) });

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "keelson-registry-"));
  store = await openStore({ dir, clock, sync: false });
  registry = open();
  errors.length = 0;
});

afterEach(async () => {
  await registry.close();
  await store.close();
  await rm(dir, { recursive: true });
  expect(errors).toEqual([]);
});

/** Resolves once `condition` holds. It is evaluated after every write. */
async function until(condition: () => boolean): Promise<void> {
  if (condition()) return;
  await new Promise<void>((resolve) => {
    const watch = store.watch("", store.revision, () => {
      // Other watchers, the registry among them, have seen these events by the next turn.
      queueMicrotask(() => {
        if (!condition()) return;
        watch.close();
        resolve();
      });
    });
  });
}

const crdKey = (name: string): string => storageKey(crdResource, "", name);
const readCrd = (name: string): KubernetesObject | undefined => store.get(crdKey(name))?.object as KubernetesObject | undefined;
const strategyOfCrds = () => registry.get("apiextensions.k8s.io", "v1", "customresourcedefinitions")?.strategy ?? {};

/** Stores an object as the create endpoint would. */
async function create(object: KubernetesObject): Promise<void> {
  const crd = draft(object);
  strategyOfCrds().default?.(crd);
  strategyOfCrds().prepareForCreate?.(crd);
  const result = await store.write(crdKey(object.metadata.name ?? ""), 0, crd);
  expect(result.ok).toBe(true);
}

async function change(name: string, edit: (crd: KubernetesObject) => void): Promise<void> {
  const stored = store.get(crdKey(name));
  if (stored === undefined) throw new Error(`no CRD ${name}`);
  const next = draft(stored.object);
  edit(next);
  expect((await store.write(stored.key, stored.revision, next)).ok).toBe(true);
}

async function remove(name: string): Promise<void> {
  await change(name, (crd) => {
    strategyOfCrds().prepareForDelete?.(crd);
    crd.metadata.deletionTimestamp = "2026-01-01T00:00:00Z";
  });
}

async function createWidget(name: string, metadata: Partial<KubernetesObject["metadata"]> = {}): Promise<void> {
  const object = { apiVersion: "example.com/v1", kind: "Widget", metadata: { name, namespace: "default", ...metadata } };
  await store.write(`example.com/widgets/default/${name}`, 0, object);
}

describe("built-in kinds", () => {
  it("are found by plural and by kind, and listed by group", () => {
    expect(registry.get("", "v1", "configmaps")).toBe(registry.byKind("", "v1", "ConfigMap"));
    expect(registry.get("", "v2", "configmaps")).toBeUndefined();
    const groups = [...new Set(registry.list().map(({ group }) => group))];
    expect(groups).toEqual([
      "",
      "apiregistration.k8s.io",
      "apps",
      "events.k8s.io",
      "authentication.k8s.io",
      "authorization.k8s.io",
      "autoscaling",
      "batch",
      "certificates.k8s.io",
      "networking.k8s.io",
      "policy",
      "rbac.authorization.k8s.io",
      "storage.k8s.io",
      "admissionregistration.k8s.io",
      "apiextensions.k8s.io",
      "scheduling.k8s.io",
      "coordination.k8s.io",
      "node.k8s.io",
      "discovery.k8s.io",
      "resource.k8s.io",
      "flowcontrol.apiserver.k8s.io",
      "storagemigration.k8s.io",
    ]);
  });

  it("are replaced by additional kinds of the same name", async () => {
    const own = { ...(registry.get("", "v1", "secrets") ?? { never: true }), shortNames: ["sec"] };
    const other = createRegistry({ store, clock, reviews: noReviews, kinds: [own as never] });
    expect(other.get("", "v1", "secrets")?.shortNames).toEqual(["sec"]);
    expect(other.list().length).toBe(registry.list().length);
    await other.close();
  });
});

describe("a CustomResourceDefinition", () => {
  it("is accepted, established and served according to its status", async () => {
    let changes = 0;
    registry.onChange(() => changes++);
    await create(widgetCrd({ shortNames: ["wd"] }));
    await until(() => registry.get("example.com", "v1", "widgets") !== undefined);
    expect(changes).toBe(1);
    expect(registry.byKind("example.com", "v1", "Widget")).toMatchObject({
      listKind: "WidgetList",
      singular: "widget",
      shortNames: ["wd"],
      storageApiVersion: "example.com/v1",
      origin: "custom",
      hasStatus: true,
    });
    const crd = readCrd("widgets.example.com");
    expect(valueAt(crd, "status")).toEqual({
      acceptedNames: { plural: "widgets", singular: "widget", kind: "Widget", listKind: "WidgetList", shortNames: ["wd"] },
      conditions: [
        {
          type: "NamesAccepted",
          status: "True",
          lastTransitionTime: expect.any(String),
          reason: "NoConflicts",
          message: "no conflicts found",
        },
        {
          type: "Established",
          status: "True",
          lastTransitionTime: expect.any(String),
          reason: "InitialNamesAccepted",
          message: "the initial names have been accepted",
        },
      ],
      storedVersions: ["v1"],
    });
  });

  it("is served immediately by a registry that starts later", async () => {
    await create(widgetCrd());
    await until(() => registry.get("example.com", "v1", "widgets") !== undefined);
    await registry.close();
    registry = open();
    expect(registry.get("example.com", "v1", "widgets")).toBeDefined();
  });

  it("gets a status even if it was stored while no registry ran", async () => {
    const crd = widgetCrd();
    strategyOfCrds().default?.(crd);
    strategyOfCrds().prepareForCreate?.(crd);
    await registry.close();
    await store.write(crdKey("widgets.example.com"), 0, crd);
    registry = open();
    expect(registry.get("example.com", "v1", "widgets")).toBeUndefined();
    await until(() => registry.get("example.com", "v1", "widgets") !== undefined);
  });

  it("keeps the identity of its resources when only its metadata changes", async () => {
    await create(widgetCrd());
    await until(() => registry.get("example.com", "v1", "widgets") !== undefined);
    const before = registry.get("example.com", "v1", "widgets");
    await change("widgets.example.com", (crd) => {
      crd.metadata.labels = { a: "b" };
    });
    expect(registry.get("example.com", "v1", "widgets")).toBe(before);
  });

  it("serves a changed schema, with complete metadata", async () => {
    await create(widgetCrd());
    await until(() => registry.get("example.com", "v1", "widgets") !== undefined);
    await change("widgets.example.com", (crd) => {
      const spec = valueAt(
        crd,
        "spec",
        "versions",
        0,
        "schema",
        "openAPIV3Schema",
        "properties",
        "spec",
        "properties",
      ) as JsonObject;
      spec["colour"] = { type: "string" };
    });
    const schema = registry.get("example.com", "v1", "widgets")?.schema;
    expect(schema?.properties?.["spec"]?.properties?.["colour"]).toEqual({ type: "string" });
    expect(schema?.properties?.["metadata"]?.properties?.["labels"]?.type).toBe("object");
  });

  it("is not served while another CRD has its kind, and gets the name when that CRD is deleted", async () => {
    await create(widgetCrd());
    await until(() => registry.get("example.com", "v1", "widgets") !== undefined);
    await create(widgetCrd({ plural: "gadgets" }));
    await until(() => valueAt(readCrd("gadgets.example.com"), "status", "conditions", 1) !== undefined);
    const gadgets = readCrd("gadgets.example.com");
    expect(isConditionTrue(gadgets, "NamesAccepted")).toBe(false);
    expect(isConditionTrue(gadgets, "Established")).toBe(false);
    expect(valueAt(gadgets, "status", "conditions", 0)).toMatchObject({
      reason: "ListKindConflict",
      message: '"WidgetList" is already in use',
    });
    expect(valueAt(gadgets, "status", "acceptedNames", "kind")).toBe("");
    expect(registry.get("example.com", "v1", "gadgets")).toBeUndefined();
    await remove("widgets.example.com");
    await until(() => registry.get("example.com", "v1", "gadgets") !== undefined);
    expect(isConditionTrue(readCrd("gadgets.example.com"), "NamesAccepted")).toBe(true);
  });

  it("gets a name that two CRDs request at the same time only once", async () => {
    await Promise.all([create(widgetCrd()), create(widgetCrd({ plural: "gadgets" }))]);
    const names = ["widgets.example.com", "gadgets.example.com"];
    await until(() => names.every((name) => valueAt(readCrd(name), "status", "conditions", 1) !== undefined));
    expect(names.filter((name) => isConditionTrue(readCrd(name), "Established"))).toHaveLength(1);
  });

  it("is removed after its objects, which are removed after their finalizers", async () => {
    await create(widgetCrd());
    await until(() => registry.get("example.com", "v1", "widgets") !== undefined);
    await createWidget("free");
    await createWidget("held", { finalizers: ["example.com/hold"] });
    await store.write("example.com/widgetsets/default/other", 0, {
      apiVersion: "example.com/v1",
      kind: "WidgetSet",
      metadata: { name: "other", namespace: "default" },
    });
    await remove("widgets.example.com");
    const held = "example.com/widgets/default/held";
    await until(() => store.get("example.com/widgets/default/free") === undefined);
    await until(() => store.get(held)?.object.metadata.deletionTimestamp !== undefined);
    const crd = readCrd("widgets.example.com");
    expect(crd?.metadata.finalizers).toEqual([cleanupFinalizer]);
    expect(isConditionTrue(crd, "Terminating")).toBe(true);
    const terminating = registry.get("example.com", "v1", "widgets");
    expect(() => terminating?.strategy.prepareForCreate?.({ apiVersion: "", kind: "", metadata: {} })).toThrow(/terminating/);
    await store.write(held, store.get(held)?.revision ?? 0, undefined);
    await until(() => readCrd("widgets.example.com") === undefined);
    expect(registry.get("example.com", "v1", "widgets")).toBeUndefined();
    expect(store.get("example.com/widgetsets/default/other")).toBeDefined();
  });

  it("whose deletion was interrupted is removed by the next registry", async () => {
    await create(widgetCrd());
    await until(() => registry.get("example.com", "v1", "widgets") !== undefined);
    await createWidget("free");
    await registry.close();
    await change("widgets.example.com", (crd) => {
      crd.metadata.finalizers = [cleanupFinalizer];
      crd.metadata.deletionTimestamp = "2026-01-01T00:00:00Z";
    });
    registry = open();
    await until(() => readCrd("widgets.example.com") === undefined);
    expect(store.list("example.com/").items).toEqual([]);
  });

  it("keeps foreign finalizers when its own is done", async () => {
    await create({ ...widgetCrd(), metadata: { name: "widgets.example.com", finalizers: ["example.com/mine"] } });
    await until(() => registry.get("example.com", "v1", "widgets") !== undefined);
    await remove("widgets.example.com");
    await until(() => readCrd("widgets.example.com")?.metadata.finalizers?.length === 1);
    expect(readCrd("widgets.example.com")?.metadata.finalizers).toEqual(["example.com/mine"]);
  });

  it("serves all versions and stores the storage version", async () => {
    const crd = widgetCrd();
    const versions = valueAt(crd, "spec", "versions") as JsonObject[];
    versions.push(
      { ...draft(versions[0]), name: "v1beta1", storage: false, deprecated: true },
      { ...draft(versions[0]), name: "v1alpha1", storage: false, served: false },
    );
    await create(crd);
    await until(() => registry.get("example.com", "v1", "widgets") !== undefined);
    const served = registry.list().filter(({ group }) => group === "example.com");
    expect(served.map(({ version, storageApiVersion }) => [version, storageApiVersion])).toEqual([
      ["v1", "example.com/v1"],
      ["v1beta1", "example.com/v1"],
    ]);
    expect(served.map(({ deprecationWarning }) => deprecationWarning)).toEqual([
      undefined,
      "example.com/v1beta1 Widget is deprecated",
    ]);
  });

  it("stops waiting for its objects when the registry closes", async () => {
    await create(widgetCrd());
    await until(() => registry.get("example.com", "v1", "widgets") !== undefined);
    await createWidget("held", { finalizers: ["example.com/hold"] });
    await remove("widgets.example.com");
    await until(() => store.get("example.com/widgets/default/held")?.object.metadata.deletionTimestamp !== undefined);
    await registry.close();
    expect(textAt(readCrd("widgets.example.com"), "metadata", "name")).toBe("widgets.example.com");
  });
});
