import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { isNotFound } from "@keelson/api-machinery";
import { ConfigMap, EventsEvent } from "@keelson/api-machinery/kinds";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { IntegrationTest } from "./api/integration-test.ts";
import { Lamp, startTestplaneEnvironment, type TestplaneEnvironment } from "./testing/testplane-environment.ts";

const namespace = "default";
let environment: TestplaneEnvironment;
beforeEach(async () => {
  environment = await startTestplaneEnvironment();
});
afterEach(() => environment[Symbol.asyncDispose]());

const lamp = (name: string, spec: Lamp["spec"] = { on: true }) => ({
  apiVersion: "example.com/v1",
  kind: "Lamp",
  metadata: { name },
  spec,
});
const configMap = (name: string, data: Record<string, string>) => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name },
  data,
});
const create = (name: string, spec: IntegrationTest["spec"]) =>
  environment.client.create(IntegrationTest, { metadata: { name, namespace }, spec });
const isDone = (
  test: { readonly status?: { readonly completionTime?: string | undefined } | undefined } | undefined,
): boolean => test?.status?.completionTime !== undefined;

describe("an IntegrationTest", () => {
  it("applies, waits by watch, checks, and deletes", async () => {
    await create("first", {
      steps: [
        {
          name: "create",
          resource: { manifest: lamp("desk") },
          readyCondition: { allOf: [{ function: "FieldEquals", params: { path: "status.phase", value: "Lit" } }] },
          expectations: { allOf: [{ function: "ResourceExists" }] },
        },
        {
          name: "delete",
          resource: { action: "Delete", manifest: lamp("desk") },
          expectations: { allOf: [{ function: "ResourceNotExists" }] },
        },
      ],
    });
    const made = await environment.until(Lamp, "desk", (each) => each !== undefined);
    expect(made?.metadata.ownerReferences).toMatchObject([{ kind: "IntegrationTest", name: "first" }]);
    await environment.until(
      IntegrationTest,
      "first",
      (each) => each?.status?.steps?.[0]?.readyConditionStatus?.state === "Running",
    );
    await environment.client.applyStatus(Lamp, { metadata: { name: "desk", namespace }, status: { phase: "Lit" } });
    const done = await environment.until(IntegrationTest, "first", isDone);
    expect(done?.status).toMatchObject({
      phase: "Succeeded",
      completedRounds: 1,
      steps: [{ state: "Succeeded" }, { state: "Succeeded" }],
      roundHistory: [{ round: 1, succeeded: true, succeededSteps: 2 }],
    });
    expect(done?.status?.frozenSpec).toBeUndefined();
    await expect(environment.client.get(Lamp, { namespace, name: "desk" })).rejects.toSatisfy(isNotFound);
  });

  it("fails immediately with all errors and creates nothing", async () => {
    await create("bad", {
      steps: [
        {
          name: "a",
          resource: { manifest: configMap("a", {}), selector: undefined } as never,
          expectations: { allOf: [{ function: "FieldEquals", params: { path: "data.x" } }] },
        },
        { name: "b", resource: { manifest: { ...configMap("b", {}), metadata: { name: "b", namespace: "other" } } } },
      ],
    });
    const done = await environment.until(IntegrationTest, "bad", isDone);
    expect(done?.status).toMatchObject({ phase: "Failed", reason: "InvalidConfig" });
    expect(done?.status?.message).toContain("spec.steps[0].expectations.allOf[0].params.value: required by FieldEquals");
    expect(done?.status?.message).toContain("spec.steps[1].resource.manifest.metadata.namespace");
    await expect(environment.client.get(ConfigMap, { namespace, name: "a" })).rejects.toSatisfy(isNotFound);
  });

  it.each([
    [
      "manifest and selector",
      { name: "s", resource: { manifest: {}, selector: { apiVersion: "v1", kind: "Pod", name: "x" } } },
      /resource/,
    ],
    ["a step without a name", { resource: { manifest: {} } }, /steps\[0\]\.name/],
    ["a negative time", { name: "s", timeoutSeconds: -1 }, /timeoutSeconds/],
    ["an unknown action", { name: "s", resource: { manifest: {}, action: "Patch" } }, /steps\[0\]\.resource\.action/],
    [
      "a selector with two criteria",
      {
        name: "s",
        resource: { selector: { apiVersion: "v1", kind: "Pod", name: "x", labelSelector: { a: "b" } } },
      },
      /resource\.selector/,
    ],
  ])("is rejected with %s", async (_, step, message) => {
    await expect(create("refused", { steps: [step as never] })).rejects.toThrow(message);
  });

  it("is rejected with duplicate step names, without steps, and with an unknown mode", async () => {
    const twice = { name: "same", resource: { manifest: configMap("a", {}) } };
    await expect(create("refused", { steps: [twice, twice] })).rejects.toThrow(/spec\.steps\[1\].*Duplicate/);
    await expect(create("refused", { steps: [] })).rejects.toThrow(/spec\.steps/);
    await expect(create("refused", { mode: "Random" as never, steps: [twice] })).rejects.toThrow(/spec\.mode/);
  });

  it("continues with the spec that it started with and reports that the new one is ignored", async () => {
    const check = (value: string) => ({ allOf: [{ function: "FieldEquals", params: { path: "data.x", value } }] });
    const spec = (value: string) => ({
      steps: [{ name: "a", resource: { manifest: configMap("a", { x: "old" }) }, expectations: check(value) }],
    });
    await create("frozen", spec("changed"));
    await environment.until(IntegrationTest, "frozen", (each) => each?.status?.steps?.[0]?.stage === "Expect");
    const body = { spec: spec("old") };
    await environment.client.patch(IntegrationTest, { namespace, name: "frozen" }, { type: "merge", body });
    await environment.until(
      IntegrationTest,
      "frozen",
      (each) =>
        each?.status?.conditions?.some(({ type, status }) => type === "SpecChangedIgnored" && status === "True") ?? false,
    );
    await environment.restart();
    await environment.client.patch(ConfigMap, { namespace, name: "a" }, { type: "merge", body: { data: { x: "changed" } } });
    const done = await environment.until(IntegrationTest, "frozen", isDone);
    expect(done?.status?.phase).toBe("Succeeded");
  });

  it("rejects an object that it did not create; with adopt it changes the object and reverts that when deleted", async () => {
    await environment.client.create(ConfigMap, { metadata: { name: "theirs", namespace }, data: { mine: "1" } });
    const manifest = configMap("theirs", { added: "2" });
    await create("refused", { steps: [{ name: "a", resource: { manifest } }] });
    expect((await environment.until(IntegrationTest, "refused", isDone))?.status?.steps?.[0]?.reason).toBe("AlreadyExists");
    await create("adopts", { steps: [{ name: "a", resource: { manifest, adopt: true } }] });
    expect((await environment.until(IntegrationTest, "adopts", isDone))?.status?.phase).toBe("Succeeded");
    const changed = await environment.client.get(ConfigMap, { namespace, name: "theirs" });
    expect(changed.data).toEqual({ mine: "1", added: "2" });
    expect(changed.metadata.ownerReferences).toBeUndefined();
    await environment.client.delete(IntegrationTest, { namespace, name: "adopts" });
    await environment.until(IntegrationTest, "adopts", (each) => each === undefined);
    expect((await environment.client.get(ConfigMap, { namespace, name: "theirs" })).data).toEqual({ mine: "1" });
  });

  it("fails with the name of the conflicting field manager (regression 16)", async () => {
    const theirs = { metadata: { name: "theirs", namespace }, data: { colour: "red" } };
    await environment.client.apply(ConfigMap, theirs, { fieldManager: "painter" });
    await create("takes", {
      steps: [{ name: "a", resource: { manifest: configMap("theirs", { colour: "blue" }), adopt: true } }],
    });
    const step = (await environment.until(IntegrationTest, "takes", isDone))?.status?.steps?.[0];
    expect(step).toMatchObject({ state: "Failed", reason: "ApplyFailed" });
    expect(step?.message).toMatch(/conflict.*"painter".*data\.colour/s);
    expect((await environment.client.get(ConfigMap, { namespace, name: "theirs" })).data).toEqual({ colour: "red" });
  });

  it("fails immediately with the field of a mistake in the manifest, and records an event", async () => {
    const typo = { ...configMap("typo", {}), data: undefined, dta: { a: "b" } };
    const { data: _, ...manifest } = typo;
    const deployment = { apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "web" }, spec: { replicas: "two" } };
    const kind = { apiVersion: "apps/v1", kind: "Deploymant", metadata: { name: "web" } };
    for (const [name, resource, reason, message] of [
      ["typo", manifest, "InvalidManifest", "manifest.dta: field not declared in schema"],
      ["type", deployment, "InvalidManifest", "manifest.spec.replicas: expected numeric (int or float), got string"],
      ["kind", kind, "UnknownKind", "does not serve Deploymant of apps/v1; did you mean Deployment?"],
    ] as const) {
      await create(name, { steps: [{ name: "a", resource: { manifest: resource } }] });
      const done = await environment.until(IntegrationTest, name, isDone);
      expect(done?.status?.steps?.[0]).toMatchObject({ state: "Failed", reason });
      expect(done?.status?.steps?.[0]?.message).toContain(message);
      expect(done?.status?.conditions).toContainEqual(expect.objectContaining({ type: "Failed", status: "True" }));
      expect(done?.status?.conditions).toContainEqual(expect.objectContaining({ type: "Complete", status: "False" }));
      await expect
        .poll(async () => {
          const { items } = await environment.client.list(EventsEvent, { namespace });
          return items.some((event) => event.reason === "StepFailed" && event.regarding?.name === name);
        })
        .toBe(true);
    }
  });

  it("fails immediately with a suggestion for an unknown function", async () => {
    const expectations = { allOf: [{ function: "DeploymentRedy" }] };
    await create("unknown", { steps: [{ name: "a", resource: { manifest: configMap("a", {}) }, expectations }] });
    const done = await environment.until(IntegrationTest, "unknown", isDone);
    expect(done?.status).toMatchObject({ phase: "Failed", reason: "InvalidConfig" });
    expect(done?.status?.message).toContain(
      'spec.steps[0].expectations.allOf[0].function: unknown function "DeploymentRedy"; did you mean DeploymentReady?',
    );
  });

  it("fails immediately if its object is deleted while it waits", async () => {
    const readyCondition = { allOf: [{ function: "FieldEquals", params: { path: "status.phase", value: "Lit" } }] };
    await create("lost", { steps: [{ name: "a", resource: { manifest: lamp("desk") }, readyCondition }] });
    await environment.until(
      IntegrationTest,
      "lost",
      (each) => each?.status?.steps?.[0]?.readyConditionStatus?.state === "Running",
    );
    await environment.client.delete(Lamp, { namespace, name: "desk" });
    const done = await environment.until(IntegrationTest, "lost", isDone);
    expect(done?.status?.steps?.[0]).toMatchObject({ state: "Failed", reason: "TargetLost" });
    expect(done?.status?.steps?.[0]?.message).toMatch(/Lamp desk was deleted/);
  });

  it("reads the objects of a selector, and one match is enough (regressions 6 and 7)", async () => {
    const labels = { app: "lamp" };
    for (const name of ["one", "two"])
      await environment.client.create(ConfigMap, { metadata: { name, namespace, labels }, data: { state: "off" } });
    await create("selects", {
      steps: [
        {
          name: "look",
          resource: { selector: { apiVersion: "v1", kind: "ConfigMap", labelSelector: labels } },
          expectations: {
            anyOf: ["on", "bright"].map((value) => ({ function: "FieldEquals", params: { path: "data.state", value } })),
          },
        },
      ],
    });
    await environment.until(IntegrationTest, "selects", (each) => each?.status?.steps?.[0]?.expectationResults?.length === 2);
    await environment.client.patch(
      ConfigMap,
      { namespace, name: "two" },
      { type: "merge", body: { data: { state: "bright" } } },
    );
    expect((await environment.until(IntegrationTest, "selects", isDone))?.status?.phase).toBe("Succeeded");
  });

  it("calls a webhook with the object, and again when the object has changed", async () => {
    const asked: string[] = [];
    const server = createServer((request, response) => {
      let text = "";
      request.on("data", (chunk: Buffer) => (text += chunk.toString()));
      request.on("end", () => {
        const { state } = JSON.parse(text) as { state: { data: { x: string } } };
        asked.push(state.data.x);
        response.end(JSON.stringify({ passed: state.data.x === "2", message: "not yet" }));
      });
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const webhook = `http://127.0.0.1:${(server.address() as AddressInfo).port}/check`;
    await create("asks", {
      steps: [
        {
          name: "a",
          resource: { manifest: configMap("a", { x: "1" }) },
          expectations: { allOf: [{ function: "IsTwo", webhook }] },
        },
      ],
    });
    await environment.until(
      IntegrationTest,
      "asks",
      (each) => each?.status?.steps?.[0]?.expectationResults?.[0]?.message === "not yet",
    );
    await environment.client.patch(ConfigMap, { namespace, name: "a" }, { type: "merge", body: { data: { x: "2" } } });
    const done = await environment.until(IntegrationTest, "asks", isDone);
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    expect([done?.status?.phase, asked]).toEqual(["Succeeded", ["1", "2"]]);
  });
});
