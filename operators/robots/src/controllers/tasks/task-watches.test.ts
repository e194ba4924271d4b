import type { DeepReadonly, KubernetesObject, Stored } from "@keelson/api-machinery";
import type { Cache, Change } from "@keelson/controller";
import { expect, it } from "vitest";
import type { Robot } from "../../api/robot.ts";
import { Task } from "../../api/task.ts";
import { isPreemptedBy } from "../moves/preemption-decision.ts";
import { affectsPlacement, taskWatches } from "./task-watches.ts";
import { robotOf, taskOf } from "../../testing/objects.ts";

const low = { uid: "low", name: "low", spec: { priority: 10, targetRobot: "robot-001" } };
const running = (attempt: number) => taskOf({ state: "running", attempt }, low);
const high = taskOf(
  { state: "pending", preemption: { robot: "robot-001", tasks: [{ name: "low", uid: "low", attempt: 1 }] } },
  { uid: "high", name: "high", spec: { priority: 90, preemptionPolicy: "PreemptLowerPriority" } },
);

/** Names of the Tasks that an update leads to, if only `high` is in the indexes. */
function woken(old: DeepReadonly<Task>, object: DeepReadonly<Task>): readonly string[] {
  const cache = {
    list: (_type: unknown, { index }: { readonly index: readonly [string, string] }) =>
      (index[0] === "preempting" && index[1] === "low") || index[0] === "state" ? [high] : [],
    get: () => running(1),
  } as unknown as Cache;
  const change = { type: "update", old, object } as unknown as Change<KubernetesObject>;
  return taskWatches
    .filter(({ type, predicates = [] }) => type.kind === Task.kind && predicates.every((passes) => passes(change)))
    .flatMap(({ map }) => map(object as unknown as Stored<KubernetesObject>, { cache }).map(({ name }) => name));
}

it("a new attempt of a task that was chosen to be stopped wakes the task that chose it", () => {
  expect(isPreemptedBy(running(1), high)).toBe(true);
  expect(isPreemptedBy(running(2), high)).toBe(false);
  expect(woken(running(1), running(2))).toEqual(["high"]);
  expect(woken(running(1), running(1))).toEqual([]);
});

it("a task that leaves its robot wakes waiting tasks, and a choice wakes those that were chosen", () => {
  expect(woken(running(1), taskOf({ state: "completed", attempt: 1 }, low))).toEqual(["high"]);
  expect(woken(taskOf({ state: "pending" }, { uid: "high", name: "high" }), high)).toEqual(["low"]);
});

it("a released reservation wakes waiting tasks", () => {
  expect(woken(high, taskOf({ state: "pending" }, { uid: "high", name: "high" }))).toContain("high");
});

it("a task that becomes stoppable wakes the waiting tasks that may stop it", () => {
  const withStatus = (status: Task["status"], priority = 10) =>
    taskOf(status, { uid: "other", name: "other", bound: true, spec: { priority } });
  const dispatching = { state: "dispatching", attempt: 1 } as const;
  expect(woken(withStatus(undefined), withStatus(dispatching))).toEqual(["high"]);
  expect(woken(withStatus(undefined, 85), withStatus(dispatching, 85))).toEqual([]);
});

it.each([
  ["priority", { priority: 5 }, { priority: 10 }],
  ["resources", { resources: { cpu: "500m" } }, { resources: { cpu: "1" } }],
])("a task on a robot whose %s changes wakes waiting tasks", (_, a, b) => {
  const withSpec = (spec: Partial<Task["spec"]>) =>
    taskOf({ state: "running", attempt: 1 }, { uid: "other", name: "other", spec: { ...low.spec, ...spec } });
  expect(woken(withSpec(a), withSpec(b))).toEqual(["high"]);
  expect(woken(withSpec(b), withSpec(a))).toEqual(["high"]);
});

it("a new priority of a task that was chosen to be stopped wakes the task that chose it", () => {
  const raised = taskOf({ state: "running", attempt: 1 }, { ...low, spec: { ...low.spec, priority: 100 } });
  expect(isPreemptedBy(raised, high)).toBe(false);
  expect(woken(running(1), raised)).toContain("high");
});

it("a robot whose agent confirms stops from now on affects placement", () => {
  const withFeatures = (agentFeatures: string[]) => robotOf("robot-001", { status: { phase: "Online", agentFeatures } });
  const change = (old: string[], object: string[]): Change<Robot> =>
    ({ type: "update", old: withFeatures(old), object: withFeatures(object) }) as unknown as Change<Robot>;
  expect(affectsPlacement(change([], ["leases"]))).toBe(true);
  expect(affectsPlacement(change(["leases"], ["leases"]))).toBe(false);
});
