import { ConfigMap, isNotFound } from "@keelson/api-machinery";
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
        { name: "a", resource: { manifest: { ...configMap("b", {}), metadata: { name: "b", namespace: "other" } } } },
      ],
    });
    const done = await tested.until(IntegrationTest, "bad", isDone);
    expect(done?.status).toMatchObject({ phase: "Failed", reason: "InvalidConfig" });
    expect(done?.status?.message).toContain("spec.steps[0].expectations.allOf[0].params.value: FieldEquals needs it");
    expect(done?.status?.message).toContain('spec.steps[1].name: "a" is the name of another step too');
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
  ])("is refused with %s", async (_, step, message) => {
    await expect(create("refused", { steps: [step as never] })).rejects.toThrow(message);
  });
});
