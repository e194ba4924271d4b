import { isJsonObject, type JsonObject, type KubernetesObject } from "@keelson/api-machinery";
import { createVirtualClock, type VirtualClock } from "@keelson/api-machinery/testing";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { Outcome } from "../endpoints/outcome.ts";
import { listAt, textAt } from "../registry/object-fields.ts";
import { systemUser } from "../system-user.ts";
import { startTestEnvironment, type TestEnvironment } from "../testing/test-environment.ts";
import { startStorageMigration } from "./storage-migration.ts";

let clock: VirtualClock;
let environment: TestEnvironment;
let migration: { stop(): Promise<void> };
const errors: unknown[] = [];
beforeEach(async () => {
  clock = createVirtualClock();
  environment = await startTestEnvironment({ clock });
  migration = startStorageMigration({ ...environment.server, clock, onError: (error) => errors.push(error) });
});
afterEach(async () => {
  await migration.stop();
  await environment.stop();
  expect(errors.splice(0)).toEqual([]);
});

const migrations = "/apis/storagemigration.k8s.io/v1beta1/storageversionmigrations";
const widgets = "/apis/example.com/v1/namespaces/default/widgets";
const crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

const send = (method: "POST" | "PUT" | "PATCH", path: string, body: object): Promise<Outcome> => {
  const headers = { "content-type": method === "PATCH" ? "application/merge-patch+json" : "application/json" };
  return environment.handle({ method, path, headers, body, user: systemUser });
};

function version(name: string, storage: boolean): object {
  const schema = { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } };
  return { name, served: true, storage, schema };
}

function crd(storage: "v1" | "v2"): KubernetesObject {
  const object = {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: "widgets.example.com" },
    spec: {
      group: "example.com",
      scope: "Namespaced",
      names: { kind: "Widget", plural: "widgets" },
      versions: [version("v1", storage === "v1"), version("v2", storage === "v2")],
    },
  };
  return object;
}

function migrate(name: string, resource: object): Promise<Outcome> {
  const body = {
    apiVersion: "storagemigration.k8s.io/v1beta1",
    kind: "StorageVersionMigration",
    metadata: { name },
    spec: { resource },
  };
  return send("POST", migrations, body);
}

/** Resolves with the conditions of a migration once `type` is True. */
function becomes(name: string, type: string): Promise<readonly unknown[]> {
  const { store } = environment;
  const key = `storagemigration.k8s.io/storageversionmigrations//${name}`;
  return new Promise((resolve) => {
    const check = (): void => {
      const conditions = listAt(store.get(key)?.object, "status", "conditions");
      if (!conditions.some((each) => textAt(each, "type") === type && textAt(each, "status") === "True")) return;
      watch.close();
      resolve(conditions);
    };
    const watch = store.watch(key, store.revision, check);
    check();
  });
}

const storedVersion = (name: string): string | undefined =>
  environment.store.get(`example.com/widgets/default/${name}`)?.object.apiVersion;

it("stores all objects in the current storage version, and leaves storedVersions to the user", async () => {
  await environment.install([crd("v1")]);
  for (const name of ["a", "b"]) {
    await send("POST", widgets, { apiVersion: "example.com/v1", kind: "Widget", metadata: { name }, spec: { size: 1 } });
  }
  await send("PATCH", `${crds}/widgets.example.com`, { spec: { versions: [version("v1", false), version("v2", true)] } });
  expect([storedVersion("a"), storedVersion("b")]).toEqual(["example.com/v1", "example.com/v1"]);
  await migrate("m", { group: "example.com", resource: "widgets" });
  const conditions = await becomes("m", "Succeeded");
  expect([storedVersion("a"), storedVersion("b")]).toEqual(["example.com/v2", "example.com/v2"]);
  expect(conditions).toEqual([
    {
      ...{ type: "Running", status: "False", lastTransitionTime: "2026-01-01T00:00:00Z" },
      ...{ reason: "StorageVersionMigrationInProgress", message: "" },
    },
    {
      ...{ type: "Succeeded", status: "True", lastTransitionTime: "2026-01-01T00:00:00Z" },
      ...{ reason: "StorageVersionMigrationSucceeded", message: "" },
    },
  ]);
  const object = environment.store.get("example.com/widgets/default/a")?.object;
  expect(object).toMatchObject({ spec: { size: 1 }, metadata: { generation: 1 } });
  const definition = environment.store.get("apiextensions.k8s.io/customresourcedefinitions//widgets.example.com")?.object;
  expect(listAt(definition, "status", "storedVersions")).toEqual(["v1", "v2"]);
});

it("does nothing to built-in objects, which are stored in their only version", async () => {
  await send("POST", "/api/v1/namespaces/default/configmaps", { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "c" } });
  const before = environment.store.get("/configmaps/default/c")?.revision;
  await migrate("m", { group: "", resource: "configmaps" });
  await becomes("m", "Succeeded");
  expect(environment.store.get("/configmaps/default/c")?.revision).toBe(before);
});

it("starts as soon as its resource is served", async () => {
  await migrate("m", { group: "example.com", resource: "widgets" });
  const succeeded = becomes("m", "Succeeded");
  await environment.install([crd("v1")]);
  await succeeded;
});

it("fails for a resource that is unknown for a minute", async () => {
  await migrate("m", { group: "example.com", resource: "none" });
  await clock.advance(59_000);
  expect(environment.store.get("storagemigration.k8s.io/storageversionmigrations//m")?.object).toMatchObject({ status: {} });
  const failed = becomes("m", "Failed");
  await clock.advance(2_000);
  expect(await failed).toMatchObject([
    { type: "Failed", reason: "StorageVersionMigrationFailed", message: "resource not found" },
  ]);
});

it("fails if an object cannot be written", async () => {
  await environment.install([crd("v1")]);
  await send("POST", widgets, { apiVersion: "example.com/v1", kind: "Widget", metadata: { name: "a" } });
  await denyUpdates();
  await send("PATCH", `${crds}/widgets.example.com`, { spec: { versions: [version("v1", false), version("v2", true)] } });
  await migrate("m", { group: "example.com", resource: "widgets" });
  expect(await becomes("m", "Failed")).toMatchObject([
    { type: "Running", status: "False" },
    { type: "Failed", message: "migration encountered unhandled error" },
  ]);
});

/** Denies updates of Widgets by a policy. */
async function denyUpdates(): Promise<void> {
  const group = "admissionregistration.k8s.io/v1";
  const rule = { apiGroups: ["example.com"], apiVersions: ["*"], operations: ["UPDATE"], resources: ["widgets"] };
  const policy = { matchConstraints: { resourceRules: [rule] }, validations: [{ expression: "false" }] };
  const metadata = { name: "p" };
  const binding = { policyName: "p", validationActions: ["Deny"] };
  const path = `/apis/${group}/validatingadmissionpolic`;
  await send("POST", `${path}ies`, { apiVersion: group, kind: "ValidatingAdmissionPolicy", metadata, spec: policy });
  await send("POST", `${path}ybindings`, {
    apiVersion: group,
    kind: "ValidatingAdmissionPolicyBinding",
    metadata,
    spec: binding,
  });
}

it("keeps its spec and its result", async () => {
  expect(await migrate("empty", { group: "example.com", resource: "" })).toMatchObject({
    status: { code: 422, message: expect.stringMatching(/spec.resource.resource: Required value/) },
  });
  await migrate("m", { group: "", resource: "configmaps" });
  await becomes("m", "Succeeded");
  const stored = environment.store.get("storagemigration.k8s.io/storageversionmigrations//m")?.object;
  const object: JsonObject = JSON.parse(JSON.stringify(stored));
  const moved = { ...object, spec: { resource: { group: "", resource: "secrets" } } };
  expect(await send("PUT", `${migrations}/m`, moved)).toMatchObject({ status: { code: 422 } });
  const status = isJsonObject(object["status"]) ? object["status"] : {};
  const conditions = [
    ...listAt(status, "conditions"),
    { type: "Failed", status: "True", lastTransitionTime: "2026-01-01T00:00:00Z" },
  ];
  const both = {
    ...object,
    status: { ...status, conditions: conditions.map((each) => ({ ...Object(each), reason: "R", message: "" })) },
  };
  expect(await send("PUT", `${migrations}/m/status`, both)).toMatchObject({
    status: { code: 422, message: expect.stringMatching(/both success and failed conditions cannot be true at the same time/) },
  });
});
