import type { KubernetesObject, Status } from "@keelson/api-machinery";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { systemUser } from "../../system-user.ts";
import { startTestEnvironment, type TestEnvironment } from "../../testing/test-environment.ts";
import type { PipelineRequest } from "../outcome.ts";

let environment: TestEnvironment;
beforeEach(async () => {
  environment = await startTestEnvironment();
  await send("POST", configMaps, { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "c" }, data: { a: "1" } });
  const spec = { containers: [{ name: "c", image: "i" }] };
  await send("POST", pods, { apiVersion: "v1", kind: "Pod", metadata: { name: "p" }, spec });
});
afterEach(() => environment.stop());

const configMaps = "/api/v1/namespaces/default/configmaps";
const pods = "/api/v1/namespaces/default/pods";

async function send(
  method: PipelineRequest["method"],
  path: string,
  body?: unknown,
  more: Partial<PipelineRequest> = {},
): Promise<Status | KubernetesObject> {
  const outcome = await environment.handle({ method, path, body, user: systemUser, ...more });
  if (outcome.kind === "status") return outcome.status;
  if (outcome.kind !== "object") throw new Error(`${path} returned a ${outcome.kind}`);
  return outcome.object.object as KubernetesObject;
}

const patch = (type: string, body: unknown, name = "c", query = {}) =>
  send("PATCH", `${configMaps}/${name}`, body, { headers: { "content-type": `application/${type}` }, query });

describe("a patch whose result is not an object of the kind", () => {
  it.each([
    ["merge-patch+json", { data: { a: 1 } }],
    ["strategic-merge-patch+json", { data: { a: 1 } }],
    ["json-patch+json", [{ op: "replace", path: "/data/a", value: 1 }]],
    ["merge-patch+json", { kind: "Secret" }],
    ["merge-patch+json", { apiVersion: "v2" }],
    ["json-patch+json", [{ op: "replace", path: "", value: [5] }]],
  ])("is itself invalid: %s %j", async (type, body) => {
    expect(await patch(type, body)).toMatchObject({
      code: 422,
      reason: "Invalid",
      details: { causes: [{ reason: "FieldValueInvalid", field: "patch" }] },
    });
    expect(await send("GET", `${configMaps}/c`)).toMatchObject({ data: { a: "1" } });
  });

  it("ignores the kind that a strategic merge patch names", async () => {
    expect(await patch("strategic-merge-patch+json", { kind: "Secret", data: { b: "2" } })).toMatchObject({
      kind: "ConfigMap",
      data: { a: "1", b: "2" },
    });
  });
});

describe("an apply", () => {
  const query = { fieldManager: "m" };
  it("is rejected for a missing object without a name or with a uid", async () => {
    const fields = { apiVersion: "v1", kind: "ConfigMap" };
    expect(await patch("apply-patch+yaml", { ...fields, data: {} }, "new", query)).toMatchObject({ code: 400 });
    const metadata = { name: "new", uid: "11111111-2222-3333-4444-555555555555" };
    expect(await patch("apply-patch+yaml", { ...fields, metadata }, "new", query)).toMatchObject({ code: 409 });
    expect(await send("GET", `${configMaps}/new`)).toMatchObject({ code: 404 });
    // The URL names an existing object.
    expect(await patch("apply-patch+yaml", { ...fields, data: { b: "2" } }, "c", query)).toMatchObject({ data: { b: "2" } });
  });

  it("fails at another resourceVersion, even if it changes nothing", async () => {
    const config = (resourceVersion?: string) => ({
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { resourceVersion },
      data: { b: "2" },
    });
    const applied = await patch("apply-patch+yaml", config(), "c", query);
    const { resourceVersion } = (applied as KubernetesObject).metadata;
    expect(await patch("apply-patch+yaml", config(resourceVersion), "c", query)).toMatchObject({
      metadata: { resourceVersion },
    });
    expect(await patch("apply-patch+yaml", config("1"), "c", query)).toMatchObject({ code: 409 });
  });
});

describe("a delete", () => {
  it.each([{ uid: 5 }, { resourceVersion: 1 }, "all"])(
    "is rejected if its preconditions cannot be decoded: %j",
    async (given) => {
      expect(await send("DELETE", `${configMaps}/c`, { preconditions: given })).toMatchObject({ code: 400 });
      expect(await send("GET", `${configMaps}/c`)).toMatchObject({ kind: "ConfigMap" });
    },
  );
});

describe("an object created in a Pod's subresource", () => {
  const binding = (metadata: object, target: object = { kind: "Node", name: "n" }) =>
    send("POST", `${pods}/p/binding`, { apiVersion: "v1", kind: "Binding", metadata, target });

  it("must name the Pod of the URL", async () => {
    expect(await binding({ name: "other" })).toMatchObject({ code: 400 });
    const eviction = { apiVersion: "policy/v1", kind: "Eviction", metadata: { name: "other" } };
    expect(await send("POST", `${pods}/p/eviction`, eviction)).toMatchObject({ code: 400 });
    expect(await send("GET", `${pods}/p`)).toMatchObject({ kind: "Pod" });
  });

  it("binds that Pod to a node, with the Binding's annotations", async () => {
    expect(await binding({ name: "p", uid: "other" })).toMatchObject({ code: 409 });
    expect(await binding({ name: "p" }, { kind: "Pod", name: "n" })).toMatchObject({ code: 500 });
    expect(await binding({ name: "p", annotations: { a: "b" } })).toMatchObject({ code: 201 });
    expect(await send("GET", `${pods}/p`)).toMatchObject({ spec: { nodeName: "n" }, metadata: { annotations: { a: "b" } } });
  });
});
