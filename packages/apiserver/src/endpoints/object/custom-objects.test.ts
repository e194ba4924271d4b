import { isJsonObject, type JsonObject, type KubernetesObject } from "@keelson/api-machinery";
import type { Schema } from "@keelson/api-machinery/schema";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { systemUser } from "../../system-user.ts";
import { startTestEnvironment, type TestEnvironment } from "../../testing/test-environment.ts";

let environment: TestEnvironment;
beforeEach(async () => {
  environment = await startTestEnvironment();
});
afterEach(() => environment.stop());

const crdPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const path = "/apis/example.com/v1/namespaces/default/widgets";

function crd(spec: Schema, version: JsonObject = {}): KubernetesObject {
  const schema = { openAPIV3Schema: { type: "object", properties: { spec } } };
  const object: unknown = {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: "widgets.example.com" },
    spec: {
      group: "example.com",
      scope: "Namespaced",
      names: { plural: "widgets", kind: "Widget" },
      versions: [{ name: "v1", served: true, storage: true, schema, ...version }],
    },
  };
  return object as KubernetesObject;
}

/** Status code, body and warnings of a request. */
async function send(method: string, target: string, body?: unknown, contentType?: string) {
  const [pathname = "", search = ""] = target.split("?");
  const outcome = await environment.handle({
    method: method as "GET",
    path: pathname,
    query: Object.fromEntries(new URLSearchParams(search)),
    user: systemUser,
    ...(body === undefined ? {} : { body }),
    ...(contentType === undefined ? {} : { headers: { "content-type": contentType } }),
  });
  if (outcome.kind === "object") {
    return { code: outcome.status, body: outcome.object.object as unknown as JsonObject, warnings: outcome.warnings ?? [] };
  }
  if (outcome.kind === "list") {
    const items = outcome.items.map(({ bytes }): unknown => JSON.parse(Buffer.from(bytes).toString()));
    return { code: 200, body: { items } as JsonObject, warnings: outcome.warnings ?? [] };
  }
  if (outcome.kind === "status") {
    return {
      code: outcome.status.code ?? 200,
      body: outcome.status as unknown as JsonObject,
      warnings: outcome.warnings ?? [],
    };
  }
  throw new Error(`unexpected outcome: ${outcome.kind}`);
}

const widget = (spec: unknown, name = "w") => ({ apiVersion: "example.com/v1", kind: "Widget", metadata: { name }, spec });

/** Replaces the kind's schema and waits until it is served with the new one. */
async function changeSchema(spec: Schema): Promise<void> {
  const before = environment.resources.get("example.com", "v1", "widgets");
  const changed = new Promise<void>((resolve) => {
    const stop = environment.resources.onChange(() => {
      if (environment.resources.get("example.com", "v1", "widgets") === before) return;
      stop();
      resolve();
    });
  });
  const next = crd(spec) as unknown as JsonObject;
  const reply = await send("PATCH", `${crdPath}/widgets.example.com`, { spec: next["spec"] }, "application/merge-patch+json");
  expect(reply.code).toBe(200);
  await changed;
}

describe("defaults that were added after an object was stored", () => {
  const old: Schema = { type: "object", properties: { a: { type: "string" } } };
  const withDefault: Schema = { type: "object", properties: { a: { type: "string" }, b: { type: "string", default: "dd" } } };

  beforeEach(async () => {
    await environment.install([crd(old)]);
    expect((await send("POST", path, widget({ a: "1" }))).code).toBe(201);
  });

  test("are returned by reads, lists and patches at the same resourceVersion", async () => {
    const before = await send("GET", `${path}/w`);
    await changeSchema(withDefault);
    const read = await send("GET", `${path}/w`);
    expect(read.body).toMatchObject({ spec: { a: "1", b: "dd" }, metadata: before.body["metadata"] });
    const { items } = (await send("GET", path)).body;
    expect(items).toMatchObject([{ spec: { a: "1", b: "dd" } }]);
    const patched = await send(
      "PATCH",
      `${path}/w`,
      [{ op: "test", path: "/spec/b", value: "dd" }],
      "application/json-patch+json",
    );
    expect(patched.code).toBe(200);
  });

  test("are written by an update that changes nothing else, once", async () => {
    await changeSchema(withDefault);
    const read = await send("GET", `${path}/w`);
    const version = (body: JsonObject): unknown => isJsonObject(body["metadata"]) && body["metadata"]["resourceVersion"];
    const first = await send("PUT", `${path}/w`, read.body);
    expect(version(first.body)).not.toBe(version(read.body));
    const second = await send("PUT", `${path}/w`, first.body);
    expect(version(second.body)).toBe(version(first.body));
  });
});

describe("an embedded object", () => {
  const spec: Schema = {
    type: "object",
    properties: {
      template: { type: "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true },
    },
  };
  const template = (metadata: unknown, more: object = {}) =>
    widget({ template: { apiVersion: "v1", kind: "Pod", metadata, ...more } });
  beforeEach(() => environment.install([crd(spec)]));

  test.each([
    ["labels that are not a map", template({ labels: "x" })],
    ["metadata that is not an object", template("x")],
    ["a kind that is not a string", template({}, { kind: 1 })],
  ])("with %s can't be read: 400", async (_, body) => {
    expect((await send("POST", path, body)).code).toBe(400);
  });

  test("loses unknown metadata fields with a warning, or is rejected if strict", async () => {
    const body = template({ name: "p", creationTimestamp: null, nosuch: 1 });
    const refused = await send("POST", `${path}?fieldValidation=Strict`, body);
    expect([refused.code, refused.body["message"]]).toEqual([400, expect.stringContaining("spec.template.metadata.nosuch")]);
    const made = await send("POST", path, body);
    expect(made.body).toMatchObject({ spec: { template: { metadata: { name: "p" } } } });
    expect(made.warnings.join()).toContain("spec.template.metadata.nosuch");
  });
});

describe("CEL rules", () => {
  const spec: Schema = {
    type: "object",
    properties: { min: { type: "integer" }, max: { type: "integer" }, name: { type: "string" } },
    "x-kubernetes-validations": [
      { rule: "!has(self.min) || self.min <= self.max", message: "min is above max", fieldPath: ".min" },
      { rule: "!has(oldSelf.name) || self.name == oldSelf.name", reason: "FieldValueForbidden" },
    ],
  };

  test("reject objects and updates with a cause", async () => {
    await environment.install([crd(spec)]);
    const refused = await send("POST", path, widget({ min: 3, max: 1 }));
    expect(refused.body).toMatchObject({
      code: 422,
      details: {
        causes: [{ field: "spec.min", reason: "FieldValueInvalid", message: "Invalid value: min is above max" }],
      },
    });
    expect((await send("POST", path, widget({ min: 1, max: 3, name: "a" }))).code).toBe(201);
    const renamed = await send("PATCH", `${path}/w`, { spec: { name: "b" } }, "application/merge-patch+json");
    expect(renamed.body).toMatchObject({ code: 422, details: { causes: [{ reason: "FieldValueForbidden", field: "spec" }] } });
    expect((await send("PATCH", `${path}/w`, { spec: { max: 9 } }, "application/merge-patch+json")).code).toBe(200);
  });

  test("that do not compile make the CRD invalid", async () => {
    const broken = crd({ ...spec, "x-kubernetes-validations": [{ rule: "self.nosuch > 1" }] });
    const reply = await send("POST", crdPath, broken);
    expect(reply.body).toMatchObject({
      code: 422,
      details: {
        causes: [
          {
            field: "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule",
            reason: "FieldValueInvalid",
          },
        ],
      },
    });
  });
});

test("a deprecated version adds a warning to every response", async () => {
  await environment.install([crd({ type: "object" }, { deprecated: true })]);
  const warning = "example.com/v1 Widget is deprecated";
  expect((await send("POST", path, widget({}))).warnings).toEqual([warning]);
  expect((await send("GET", `${path}/w`)).warnings).toEqual([warning]);
  expect((await send("GET", path)).warnings).toEqual([warning]);
  expect((await send("GET", `${path}/none`)).warnings).toEqual([warning]);
});

test("empty strings, lists and maps of a built-in kind are omitted unless empty has a meaning", async () => {
  const claims = "/api/v1/namespaces/default/persistentvolumeclaims";
  const resources = { requests: { storage: "1Gi" } };
  const spec = { accessModes: ["ReadWriteOnce"], resources, storageClassName: "", volumeName: "", dataSource: null };
  const { code, body } = await send("POST", claims, { metadata: { name: "c" }, spec });
  expect(code).toBe(201);
  expect(body["spec"]).toMatchObject({ storageClassName: "" });
  expect(body["spec"]).not.toHaveProperty("volumeName");
});
