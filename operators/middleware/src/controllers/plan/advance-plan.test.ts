import type { DeepReadonly } from "@keelson/api-machinery";
import { describe, expect, it } from "vitest";
import type { ChangeTask, Plan, TaskState } from "../../api/app.ts";
import type { Component } from "../../api/component.ts";
import type { ErrorClass, Operation } from "../../api/parts.ts";
import { advancePlan, transitions } from "./advance-plan.ts";
import { cancelTasks, retryTasks } from "./requested-changes.ts";

const now = Date.UTC(2026, 0, 1);
const at = (ms: number): string => new Date(now + ms).toISOString();
const policy = { onFailure: "stop", isSuperseded: false, isPaused: false, retryBackoffMs: 1_000 } as const;

function task(status: TaskState, more: Partial<ChangeTask> = {}): ChangeTask {
  return {
    taskId: "task-1-01",
    type: "middleware_config",
    scenario: "update",
    description: "maxmemory 1 -> 2",
    priority: 20,
    stage: 1,
    targetComponent: "redis",
    desiredSpec: { config: { maxmemory: "2" } },
    baseSpec: { config: { maxmemory: "1" } },
    dependencies: [],
    status,
    retryCount: 0,
    maxRetries: 3,
    attempt: status === "pending" ? 0 : 1,
    timeout: "300s",
    ...(status === "pending" ? {} : { token: "plan/task-1-01/1", deadlineAt: at(300_000) }),
    ...more,
  };
}

const planOf = (...tasks: ChangeTask[]): Plan => ({ id: "plan", generation: 1, startedAt: at(0), tasks });

/** A Component that reports this phase for `token`. */
function answers(
  phase: Operation["phase"],
  more: Partial<Operation> & { readonly isStale?: boolean } = {},
): DeepReadonly<Component> {
  const { isStale, ...rest } = more;
  const token = rest.token ?? "plan/task-1-01/1";
  return {
    apiVersion: "middleware.io/v1alpha1",
    kind: "Component",
    metadata: { name: "cache-redis", generation: 2 },
    spec: { operation: { token, scenario: "update" } },
    status: { observedGeneration: isStale ? 1 : 2, operation: { scenario: "update", startedAt: at(0), phase, ...rest, token } },
  } as DeepReadonly<Component>;
}

const step = (plan: Plan, component?: DeepReadonly<Component>, time = now) =>
  advancePlan(plan, new Map(component ? [["redis", component]] : []), policy, time);

describe("a step of a task", () => {
  const partial = { pointOfNoReturn: true };
  const revert = { revert: true, token: "plan/task-1-01/1/revert" };
  const network = { errorClass: "Network" as ErrorClass, message: "refused" };
  const config = { errorClass: "Config" as ErrorClass, message: "bad" };
  it.each<[string, ChangeTask, DeepReadonly<Component> | undefined, number, Partial<ChangeTask>]>([
    ["pending starts", task("pending"), undefined, 0, { status: "in_progress", attempt: 1, token: "plan/task-1-01/1" }],
    ["running continues without a response", task("in_progress"), undefined, 0, { status: "in_progress" }],
    ["running continues while the operation runs", task("in_progress"), answers("Running"), 0, { status: "in_progress" }],
    ["running is done when its token succeeded", task("in_progress"), answers("Succeeded"), 0, { status: "done" }],
    [
      "a response to another token is ignored",
      task("in_progress"),
      answers("Succeeded", { token: "old" }),
      0,
      { status: "in_progress" },
    ],
    [
      "a response to a token that the Component no longer has is ignored",
      task("in_progress"),
      { ...answers("Succeeded"), spec: { operation: { token: "other", scenario: "update" } } } as DeepReadonly<Component>,
      0,
      { status: "in_progress" },
    ],
    [
      "a response for an older generation is ignored",
      task("in_progress"),
      answers("Succeeded", { isStale: true }),
      0,
      { status: "in_progress" },
    ],
    [
      "a network error is retried after 1 s",
      task("in_progress"),
      answers("Failed", network),
      0,
      { status: "retry_pending", retryAt: at(1_000), retryCount: 1 },
    ],
    [
      "the backoff doubles",
      task("in_progress", { retryCount: 2 }),
      answers("Failed", network),
      0,
      { retryAt: at(4_000), retryCount: 3 },
    ],
    [
      "the backoff is capped at 60 s",
      task("in_progress", { retryCount: 20, maxRetries: 50 }),
      answers("Failed", network),
      0,
      { retryAt: at(60_000) },
    ],
    [
      "is reverted without retries left",
      task("in_progress", { retryCount: 3 }),
      answers("Failed", network),
      0,
      { status: "cancelling", ...revert },
    ],
    [
      "a bad parameter is not retried",
      task("in_progress"),
      answers("Failed", config),
      0,
      { status: "cancelling", retryCount: 0, ...revert },
    ],
    [
      "is partial past the point of no return",
      task("in_progress"),
      answers("Failed", { ...config, ...partial }),
      0,
      { status: "failed", reason: "partial" },
    ],
    ["waiting for a retry waits", task("retry_pending", { retryAt: at(1_000) }), undefined, 999, { status: "retry_pending" }],
    [
      "waiting for a retry starts at its time",
      task("retry_pending", { retryAt: at(1_000) }),
      undefined,
      1_000,
      { status: "in_progress", attempt: 2, token: "plan/task-1-01/2" },
    ],
    [
      "is cancelled after its timeout",
      task("in_progress"),
      answers("Running"),
      300_000,
      { status: "cancelling", reason: "timeout", errorClass: "Timeout" },
    ],
    ["is done if it finished at its timeout", task("in_progress"), answers("Succeeded"), 300_000, { status: "done" }],
    ["a cancel that arrives too late is done", task("cancelling"), answers("Succeeded"), 0, { status: "done" }],
    ["a confirmed cancel is reverted", task("cancelling"), answers("Cancelled"), 0, { status: "cancelling", ...revert }],
    [
      "a cancel past the point of no return fails as partial",
      task("cancelling"),
      answers("Cancelled", partial),
      0,
      { status: "failed", reason: "partial" },
    ],
    [
      "a cancel without a response fails as unknown",
      task("cancelling"),
      undefined,
      300_000,
      { status: "failed", reason: "unknown" },
    ],
    [
      "a successful revert is cancelled",
      task("cancelling", revert),
      answers("Succeeded", { token: revert.token }),
      0,
      { status: "cancelled" },
    ],
    [
      "a successful revert of a failure is failed",
      task("cancelling", { ...revert, errorClass: "Config" }),
      answers("Succeeded", { token: revert.token }),
      0,
      { status: "failed" },
    ],
    [
      "a failed revert is partial",
      task("cancelling", revert),
      answers("Failed", { token: revert.token }),
      0,
      { status: "failed", reason: "partial" },
    ],
    ["done stays done", task("done"), answers("Failed"), 900_000, { status: "done" }],
    [
      "failed stays failed, even if the operation succeeds later",
      task("failed"),
      answers("Succeeded"),
      0,
      { status: "failed" },
    ],
  ])("%s", (_, before, component, ms, after) => {
    const [next] = step(planOf(before), component, now + ms).plan.tasks;
    expect(next).toMatchObject(after);
    // Every transition must be allowed.
    if (next !== undefined && next.status !== before.status) expect(transitions[before.status]).toContain(next.status);
  });

  it("returns the nearest deadline of all tasks", () => {
    const running = task("in_progress", { deadlineAt: at(300_000) });
    const retrying = task("retry_pending", { taskId: "task-1-02", retryAt: at(2_000) });
    expect(step(planOf(running, retrying), answers("Running")).dueMs).toBe(now + 2_000);
    expect(step(planOf(task("done"))).dueMs).toBeUndefined();
  });

  it("determines the outcome: failed before cancelled before succeeded", () => {
    const outcome = (...states: TaskState[]) =>
      step(planOf(...states.map((state, index) => task(state, { taskId: `task-1-0${index}` })))).plan.outcome;
    expect(outcome("done", "done")).toBe("Succeeded");
    expect(outcome("done", "cancelled")).toBe("Cancelled");
    expect(outcome("cancelled", "failed", "skipped")).toBe("Failed");
  });

  it("skips all tasks after a failure, or only its dependents", () => {
    const failed = task("failed");
    const next = task("pending", { taskId: "task-1-02", stage: 2 });
    const dependent = task("pending", { taskId: "task-1-03", stage: 3, dependencies: ["task-1-01"] });
    const states = (onFailure: "stop" | "skip-dependents") =>
      advancePlan(
        planOf(failed, next, dependent),
        new Map(),
        { onFailure, isSuperseded: false, isPaused: false, retryBackoffMs: 1_000 },
        now,
      ).plan.tasks.map((each) => each.status);
    expect(states("stop")).toEqual(["failed", "skipped", "skipped"]);
    expect(states("skip-dependents")).toEqual(["failed", "in_progress", "skipped"]);
  });

  it("records why a task was skipped: a failed task, or a newer change", () => {
    const reason = (isSuperseded: boolean) =>
      advancePlan(
        planOf(task("failed"), task("pending", { taskId: "task-1-02", stage: 2 })),
        new Map(),
        { onFailure: "stop", isSuperseded, isPaused: false, retryBackoffMs: 1_000 },
        now,
      ).plan.tasks[1]?.reason;
    expect(reason(false)).toBe("task-1-01 is failed");
    expect(reason(true)).toBe("superseded");
  });

  it("starts a stage only after the previous one has finished", () => {
    const later = task("pending", { taskId: "task-1-02", stage: 2 });
    expect(step(planOf(task("in_progress"), later), answers("Running")).plan.tasks[1]?.status).toBe("pending");
    expect(step(planOf(task("in_progress"), later), answers("Succeeded")).plan.tasks[1]?.status).toBe("in_progress");
  });
});

describe("user requests", () => {
  it.each<[TaskState, TaskState, string]>([
    ["pending", "cancelled", "cancelled"],
    ["retry_pending", "cancelled", "cancelled"],
    ["in_progress", "cancelling", "cancelling"],
    ["cancelling", "cancelling", "already cancelling"],
    ["done", "done", "refused: the task is done"],
    ["failed", "failed", "refused: the task is failed"],
    ["skipped", "skipped", "refused: the task is skipped"],
    ["cancelled", "cancelled", "refused: the task is cancelled"],
  ])("a cancel of a task that is %s makes it %s", (before, after, result) => {
    const tasks = [task(before)];
    expect(cancelTasks(tasks, ["task-1-01"], now)).toEqual([{ taskId: "task-1-01", result }]);
    expect(tasks[0]?.status).toBe(after);
  });

  it.each<[TaskState, TaskState, string]>([
    ["failed", "pending", "pending"],
    ["skipped", "pending", "pending"],
    ["cancelled", "pending", "pending"],
    ["pending", "pending", "refused: the task is pending"],
    ["in_progress", "in_progress", "refused: the task is in_progress"],
    ["retry_pending", "retry_pending", "refused: the task is retry_pending"],
    ["cancelling", "cancelling", "refused: the task is cancelling"],
    ["done", "done", "refused: the task is done"],
  ])("a retry of a task that is %s makes it %s", (before, after, result) => {
    const plan = planOf(task(before, { retryCount: 3, error: "no" }));
    expect(retryTasks(plan, ["task-1-01"], false, true)).toEqual([{ taskId: "task-1-01", result }]);
    expect(plan.tasks[0]).toMatchObject({ status: after, retryCount: result === "pending" ? 0 : 3 });
  });
});

it("does not revert a failed task while changes are paused, because a revert restarts Pods", () => {
  const failed = answers("Failed", { errorClass: "Config", message: "bad" });
  const components = new Map([["redis", failed]]);
  const plan = planOf(task("in_progress"));
  const paused = advancePlan(plan, components, { ...policy, isPaused: true, retryBackoffMs: 1_000 }, now);
  expect(paused.plan.tasks).toMatchObject([{ status: "in_progress" }]);
  expect(paused.plan.tasks[0]).not.toHaveProperty("revert");
  expect(advancePlan(paused.plan, components, policy, now).plan.tasks).toMatchObject([{ status: "cancelling", revert: true }]);
});
