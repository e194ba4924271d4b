import type { PodDisruptionBudgetObject, PodObject } from "@keelson/api-machinery/kinds";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { systemUser } from "../../system-user.ts";
import { startTestEnvironment, type TestEnvironment } from "../../testing/test-environment.ts";
import { decideEviction } from "./eviction-decision.ts";
import type { PipelineRequest } from "../outcome.ts";

let environment: TestEnvironment;
beforeEach(async () => {
  environment = await startTestEnvironment({ clock: createVirtualClock() });
});
afterEach(() => environment.stop());

/** Sends a request. Returns the object or Status of the response. */
async function ask(
  method: PipelineRequest["method"],
  path: string,
  body?: unknown,
  query: Record<string, string> = {},
): Promise<Record<string, ReturnType<typeof JSON.parse>>> {
  const outcome = await environment.handle({ method, path, query, user: systemUser, ...(body === undefined ? {} : { body }) });
  if (outcome.kind === "status") return { ...outcome.status };
  if (outcome.kind === "object") return JSON.parse(Buffer.from(outcome.object.bytes).toString());
  throw new Error(`${path} returned a ${outcome.kind}`);
}

const pods = "/api/v1/namespaces/default/pods";
const budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

async function makePod(name: string, isReady = true): Promise<void> {
  const spec = { containers: [{ name: "c", image: "i" }], terminationGracePeriodSeconds: 0 };
  const pod = await ask("POST", pods, { apiVersion: "v1", kind: "Pod", metadata: { name, labels: { app: "web" } }, spec });
  const conditions = [{ type: "Ready", status: isReady ? "True" : "False" }];
  await ask("PUT", `${pods}/${name}/status`, { ...pod, status: { phase: "Running", conditions } });
}

async function makeBudget(spec: object, status?: object): Promise<void> {
  const selector = { matchLabels: { app: "web" } };
  const body = { apiVersion: "policy/v1", kind: "PodDisruptionBudget", metadata: { name: "b" }, spec: { selector, ...spec } };
  const budget = await ask("POST", budgets, body);
  if (status !== undefined) await ask("PUT", `${budgets}/b/status`, { ...budget, status: { ...budget["status"], ...status } });
}

const evict = (name: string, query: Record<string, string> = {}) =>
  ask("POST", `${pods}/${name}/eviction`, { apiVersion: "policy/v1", kind: "Eviction", metadata: { name } }, query);

const refusal = (message: string, retry: object = {}): object => ({
  code: 429,
  reason: "TooManyRequests",
  message: "Cannot evict pod as it would violate the pod's disruption budget.",
  details: { causes: [{ reason: "DisruptionBudget", message }], ...retry },
});

describe("an eviction", () => {
  it("marks the Pod as the target of a disruption, unless it is a dry run or its preconditions fail", async () => {
    const spec = { containers: [{ name: "c", image: "i" }], nodeName: "n" };
    await ask("POST", pods, { apiVersion: "v1", kind: "Pod", metadata: { name: "a" }, spec });
    const conditions = async () => (await ask("GET", `${pods}/a`))["status"].conditions ?? [];
    expect(await evict("a", { dryRun: "All" })).toMatchObject({ code: 201 });
    const metadata = { name: "a" };
    const deleteWith = (preconditions: object) =>
      ask("POST", `${pods}/a/eviction`, {
        apiVersion: "policy/v1",
        kind: "Eviction",
        metadata,
        deleteOptions: { preconditions },
      });
    expect(await deleteWith({ resourceVersion: "1" })).toMatchObject({ code: 409 });
    expect(await conditions()).toEqual([]);
    const { resourceVersion } = (await ask("GET", `${pods}/a`))["metadata"];
    expect(await deleteWith({ resourceVersion })).toMatchObject({ code: 201 });
    expect(await conditions()).toMatchObject([
      { type: "DisruptionTarget", status: "True", reason: "EvictionByEvictionAPI", message: "Eviction API: evicting" },
    ]);
    expect((await ask("GET", `${pods}/a`))["metadata"].deletionTimestamp).toBeDefined();
  });

  it("uses one allowed disruption and is rejected when none is left", async () => {
    await makeBudget(
      { minAvailable: 1 },
      { observedGeneration: 1, disruptionsAllowed: 1, currentHealthy: 2, desiredHealthy: 1, expectedPods: 2 },
    );
    await makePod("a");
    await makePod("c");
    expect(await evict("a", { dryRun: "All" })).toMatchObject({ code: 201 });
    const answers = await Promise.all([evict("a"), evict("c")]);
    expect(answers.map(({ code }) => code).sort()).toEqual([201, 429]);
    expect(answers.find(({ code }) => code === 429)).toMatchObject(
      refusal("The disruption budget b needs 1 healthy pods and has 2 currently"),
    );
    const { status } = await ask("GET", `${budgets}/b`);
    expect(status.disruptionsAllowed).toBe(0);
    expect(Object.keys(status.disruptedPods)).toHaveLength(1);
    const left = await Promise.all(["a", "c"].map((name) => ask("GET", `${pods}/${name}`)));
    expect(left.filter(({ kind }) => kind === "Pod")).toHaveLength(1);
  });

  it("uses one allowed disruption if the Pod changes meanwhile", async () => {
    await makeBudget(
      { minAvailable: 1 },
      { observedGeneration: 1, disruptionsAllowed: 1, currentHealthy: 2, desiredHealthy: 1, expectedPods: 2 },
    );
    await makePod("a");
    const { status, ...pod } = await ask("GET", `${pods}/a`);
    const change = { ...pod, status: { ...status, message: "changed" } };
    const [evicted] = await Promise.all([evict("a"), ask("PUT", `${pods}/a/status`, change)]);
    expect(evicted).toMatchObject({ code: 201 });
    expect((await ask("GET", `${budgets}/b`))["status"].disruptionsAllowed).toBe(0);
  });

  it("is delayed until the controller has observed the budget's latest generation", async () => {
    await makePod("a");
    await makeBudget({ minAvailable: 0 }, { observedGeneration: 1, disruptionsAllowed: 1 });
    const budget = await ask("GET", `${budgets}/b`);
    await ask("PUT", `${budgets}/b`, { ...budget, spec: { ...budget["spec"], minAvailable: 1 } });
    expect(await evict("a")).toMatchObject(
      refusal("The disruption budget b is still being processed by the server.", { retryAfterSeconds: 10 }),
    );
  });

  it("is delayed until a controller has observed the budget", async () => {
    await makePod("a");
    await makeBudget({ minAvailable: 0 });
    expect(await evict("a")).toMatchObject({ code: 429, details: { retryAfterSeconds: 10 } });
    expect((await ask("GET", `${pods}/a`))["kind"]).toBe("Pod");
  });
});

describe("decideEviction", () => {
  const pod = (status: object, metadata: object = {}): PodObject => ({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "p", ...metadata },
    spec: { containers: [] },
    status: { phase: "Running", ...status },
  });
  const budget = (spec: object, status: object): PodDisruptionBudgetObject => ({
    apiVersion: "policy/v1",
    kind: "PodDisruptionBudget",
    metadata: { name: "b", generation: 1 },
    spec,
    status: { observedGeneration: 1, disruptionsAllowed: 0, ...status },
  });
  const full = budget({}, { currentHealthy: 1, desiredHealthy: 2 });
  const decide = (one: PodObject, ...all: PodDisruptionBudgetObject[]) => decideEviction(one, all, "2026-01-01T00:00:00Z");

  it.each(["Pending", "Succeeded", "Failed"])("ignores budgets for a Pod that is %s", (phase) => {
    expect(decide(pod({ phase }), full)).toEqual({ kind: "evict" });
  });

  it("ignores budgets for a terminating Pod, and allows a Pod that no budget selects", () => {
    expect(decide(pod({}, { deletionTimestamp: "2026-01-01T00:00:00Z" }), full)).toEqual({ kind: "evict" });
    expect(decide(pod({}))).toEqual({ kind: "evict" });
  });

  it("fails if two budgets select the Pod", () => {
    expect(decide(pod({}), full, full)).toMatchObject({
      kind: "rejected",
      error: {
        status: {
          code: 500,
          message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
        },
      },
    });
  });

  it("allows evicting an unready Pod if enough others are healthy or the policy is AlwaysAllow", () => {
    expect(decide(pod({}), full).kind).toBe("rejected");
    expect(decide(pod({}), budget({}, { currentHealthy: 2, desiredHealthy: 2 }))).toEqual({ kind: "evict" });
    expect(decide(pod({}), budget({ unhealthyPodEvictionPolicy: "AlwaysAllow" }, { desiredHealthy: 9 }))).toEqual({
      kind: "evict",
    });
  });
});
