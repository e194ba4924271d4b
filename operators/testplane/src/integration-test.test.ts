import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { isNotFound } from "@keelson/api-machinery";
import { ConfigMap } from "@keelson/api-machinery/kinds";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { IntegrationTest } from "./api/integration-test.ts";
import { Lamp, startTested, type Tested } from "./testing/tested.ts";

const namespace = "default";
let tested: Tested;
beforeEach(async () => {
  tested = await startTested();
});
afterEach(() => tested[Symbol.asyncDispose]());

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
  tested.client.create(IntegrationTest, { metadata: { name, namespace }, spec });
const isDone = (
  test: { readonly status?: { readonly completionTime?: string | undefined } | undefined } | undefined,
): boolean => test?.status?.completionTime !== undefined;

describe("an IntegrationTest", () => {
  it("applies, waits for its operator by watch, checks, and deletes", async () => {
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
    const made = await tested.until(Lamp, "desk", (each) => each !== undefined);
    expect(made?.metadata.ownerReferences).toMatchObject([{ kind: "IntegrationTest", name: "first" }]);
    await tested.until(IntegrationTest, "first", (each) => each?.status?.steps?.[0]?.readyConditionStatus?.state === "Running");
    await tested.client.applyStatus(Lamp, { metadata: { name: "desk", namespace }, status: { phase: "Lit" } });
    const done = await tested.until(IntegrationTest, "first", isDone);
    expect(done?.status).toMatchObject({
      phase: "Succeeded",
      completedRounds: 1,
      steps: [{ state: "Succeeded" }, { state: "Succeeded" }],
      roundHistory: [{ round: 1, succeeded: true, succeededSteps: 2 }],
    });
    expect(done?.status?.frozenSpec).toBeUndefined();
    await expect(tested.client.get(Lamp, { namespace, name: "desk" })).rejects.toSatisfy(isNotFound);
  });

  it("fails at once with every fault named, and makes nothing", async () => {
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
    const done = await tested.until(IntegrationTest, "bad", isDone);
    expect(done?.status).toMatchObject({ phase: "Failed", reason: "InvalidConfig" });
    expect(done?.status?.message).toContain("spec.steps[0].expectations.allOf[0].params.value: FieldEquals needs it");
    expect(done?.status?.message).toContain("spec.steps[1].resource.manifest.metadata.namespace");
    await expect(tested.client.get(ConfigMap, { namespace, name: "a" })).rejects.toSatisfy(isNotFound);
  });

  it.each([
    [
      "an unknown function",
      { name: "s", resource: { manifest: {} }, expectations: { allOf: [{ function: "PodRedy" }] } },
      /allOf\[0\]/,
    ],
    [
      "manifest and selector",
      { name: "s", resource: { manifest: {}, selector: { apiVersion: "v1", kind: "Pod", name: "x" } } },
      /resource/,
    ],
    ["a step without a name", { resource: { manifest: {} } }, /steps\[0\]\.name/],
    ["a negative time", { name: "s", timeoutSeconds: -1 }, /timeoutSeconds/],
    ["an action that there is not", { name: "s", resource: { manifest: {}, action: "Patch" } }, /steps\[0\]\.resource\.action/],
    [
      "a selector of two kinds",
      {
        name: "s",
        resource: { selector: { apiVersion: "v1", kind: "Pod", name: "x", labelSelector: { a: "b" } } },
      },
      /resource\.selector/,
    ],
  ])("is refused with %s", async (_, step, message) => {
    await expect(create("refused", { steps: [step as never] })).rejects.toThrow(message);
  });

  it("is refused with the same name for two steps, with none, and with a mode that there is not", async () => {
    const twice = { name: "same", resource: { manifest: configMap("a", {}) } };
    await expect(create("refused", { steps: [twice, twice] })).rejects.toThrow(/spec\.steps\[1\].*Duplicate/);
    await expect(create("refused", { steps: [] })).rejects.toThrow(/spec\.steps/);
    await expect(create("refused", { mode: "Random" as never, steps: [twice] })).rejects.toThrow(/spec\.mode/);
  });

  it("goes on by the spec that it started with, and says so once it is changed", async () => {
    const check = (value: string) => ({ allOf: [{ function: "FieldEquals", params: { path: "data.x", value } }] });
    const spec = (value: string) => ({
      steps: [{ name: "a", resource: { manifest: configMap("a", { x: "old" }) }, expectations: check(value) }],
    });
    await create("frozen", spec("changed"));
    await tested.until(IntegrationTest, "frozen", (each) => each?.status?.steps?.[0]?.stage === "Expect");
    const body = { spec: spec("old") };
    await tested.client.patch(IntegrationTest, { namespace, name: "frozen" }, { type: "merge", body });
    await tested.until(
      IntegrationTest,
      "frozen",
      (each) =>
        each?.status?.conditions?.some(({ type, status }) => type === "SpecChangedIgnored" && status === "True") ?? false,
    );
    await tested.restart();
    await tested.client.patch(ConfigMap, { namespace, name: "a" }, { type: "merge", body: { data: { x: "changed" } } });
    const done = await tested.until(IntegrationTest, "frozen", isDone);
    expect(done?.status?.phase).toBe("Succeeded");
  });

  it("refuses an object that it did not make; with adopt it changes it, and takes that back when it is deleted", async () => {
    await tested.client.create(ConfigMap, { metadata: { name: "theirs", namespace }, data: { mine: "1" } });
    const manifest = configMap("theirs", { added: "2" });
    await create("refused", { steps: [{ name: "a", resource: { manifest } }] });
    expect((await tested.until(IntegrationTest, "refused", isDone))?.status?.steps?.[0]?.reason).toBe("AlreadyExists");
    await create("adopts", { steps: [{ name: "a", resource: { manifest, adopt: true } }] });
    expect((await tested.until(IntegrationTest, "adopts", isDone))?.status?.phase).toBe("Succeeded");
    const changed = await tested.client.get(ConfigMap, { namespace, name: "theirs" });
    expect(changed.data).toEqual({ mine: "1", added: "2" });
    expect(changed.metadata.ownerReferences).toBeUndefined();
    await tested.client.delete(IntegrationTest, { namespace, name: "adopts" });
    await tested.until(IntegrationTest, "adopts", (each) => each === undefined);
    expect((await tested.client.get(ConfigMap, { namespace, name: "theirs" })).data).toEqual({ mine: "1" });
  });

  it("fails with the name of the manager whose field it would take (regression 16)", async () => {
    const theirs = { metadata: { name: "theirs", namespace }, data: { colour: "red" } };
    await tested.client.apply(ConfigMap, theirs, { fieldManager: "painter" });
    await create("takes", {
      steps: [{ name: "a", resource: { manifest: configMap("theirs", { colour: "blue" }), adopt: true } }],
    });
    const step = (await tested.until(IntegrationTest, "takes", isDone))?.status?.steps?.[0];
    expect(step).toMatchObject({ state: "Failed", reason: "ApplyFailed" });
    expect(step?.message).toMatch(/conflict.*"painter".*data\.colour/s);
    expect((await tested.client.get(ConfigMap, { namespace, name: "theirs" })).data).toEqual({ colour: "red" });
  });

  it("looks at what a selector finds, and asks for it no more than the one object needs (regressions 6 and 7)", async () => {
    const labels = { app: "lamp" };
    for (const name of ["one", "two"])
      await tested.client.create(ConfigMap, { metadata: { name, namespace, labels }, data: { state: "off" } });
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
    await tested.until(IntegrationTest, "selects", (each) => each?.status?.steps?.[0]?.expectationResults?.length === 2);
    await tested.client.patch(ConfigMap, { namespace, name: "two" }, { type: "merge", body: { data: { state: "bright" } } });
    expect((await tested.until(IntegrationTest, "selects", isDone))?.status?.phase).toBe("Succeeded");
  });

  it("asks a webhook with the object, and again when it has changed", async () => {
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
    await tested.until(
      IntegrationTest,
      "asks",
      (each) => each?.status?.steps?.[0]?.expectationResults?.[0]?.message === "not yet",
    );
    await tested.client.patch(ConfigMap, { namespace, name: "a" }, { type: "merge", body: { data: { x: "2" } } });
    const done = await tested.until(IntegrationTest, "asks", isDone);
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    expect([done?.status?.phase, asked]).toEqual(["Succeeded", ["1", "2"]]);
  });
});
