import { describe, expect, it } from "vitest";
import type { Task } from "../api/task.ts";
import { after, definition, groupOf, t0, taskOf } from "../testing/objects.ts";
import { decideTaskGroup, type TaskGroupObservation } from "./taskgroup-decision.ts";

const decide = (group: TaskGroupObservation["group"], tasks: TaskGroupObservation["tasks"] = [], named = tasks) =>
  decideTaskGroup({ group, tasks, taskNamed: (name) => named.find((task) => task.metadata.name === name), now: t0 });

const owner = {
  apiVersion: "robot.k8s4r.io/v1alpha1",
  kind: "TaskGroup",
  name: "hello-workers",
  uid: "group-1",
  controller: true,
};

const pair = (a: Task["status"], b: Task["status"]) => [
  taskOf(a),
  taskOf(b, { name: "hello-workers-run-1", uid: "2", index: 1 }),
];

describe("decideTaskGroup", () => {
  it("makes count copies of every task, with the names of Job and group in them (B1)", () => {
    const { create } = decide(
      groupOf({ tasks: [definition, { ...definition, name: "watch" }], robotSelector: { env: "demo" }, priority: 3 }),
    );
    expect(create.map((task) => task.name)).toEqual([
      "hello-workers-run-0",
      "hello-workers-watch-0",
      "hello-workers-run-1",
      "hello-workers-watch-1",
    ]);
    expect(create[2]).toMatchObject({
      labels: { job: "hello", taskgroup: "hello-workers", taskindex: "1" },
      spec: { ...definition, jobName: "hello", taskGroupName: "hello-workers", robotSelector: { env: "demo" }, priority: 3 },
    });
  });

  it("passes everything that a task definition says on to the Task (H2)", () => {
    const full = {
      ...definition,
      env: { A: "b" },
      user: "nobody",
      timeout: "10s",
      killTimeout: "2s",
      resources: { cpu: "1" },
      artifacts: [{ getterSource: "https://h/x" }],
      templates: [{ destPath: "x" }],
      services: [{ name: "s", portLabel: "p" }],
      constraints: [{ lTarget: "a", rTarget: "a" }],
      restartPolicy: { attempts: 9 },
    };
    const spec = decide(
      groupOf({ tasks: [full], constraints: [{ lTarget: "b", rTarget: "b" }], restartPolicy: { attempts: 1 } }),
    ).create[0]?.spec;
    expect(spec).toMatchObject({
      ...full,
      constraints: [
        { lTarget: "b", rTarget: "b" },
        { lTarget: "a", rTarget: "a" },
      ],
    });
  });

  it("makes a Task that is missing whatever the status says (B3)", () => {
    const status = { state: "running", totalTasks: 2, runningTasks: 2 } as const;
    expect(decide(groupOf({}, { status }), [taskOf()]).create.map((task) => task.name)).toEqual(["hello-workers-run-1"]);
  });

  it("waits for the Task of an earlier group of the same name to go", () => {
    const task = taskOf();
    const old = { ...task, metadata: { ...task.metadata, ownerReferences: [{ ...owner, uid: "group-0" }] } };
    expect(decide(groupOf(), [], [old]).create.map(({ name }) => name)).toEqual(["hello-workers-run-1"]);
  });

  it("gives a Task another name when another group has the plain one", () => {
    const task = taskOf();
    const foreign = { ...task, metadata: { ...task.metadata, ownerReferences: [{ ...owner, name: "hello", uid: "x" }] } };
    expect(decide(groupOf({ count: 1 }), [], [foreign]).create[0]?.name).toMatch(/^hello-workers-run-0-[0-9a-f]{10}$/);
  });

  it("deletes copies beyond count, once", () => {
    const extra = taskOf(undefined, { name: "hello-workers-run-2", index: 2 });
    expect(decide(groupOf({}), [...pair(undefined, undefined), extra]).remove).toEqual(["hello-workers-run-2"]);
    const going = taskOf(undefined, { name: "hello-workers-run-2", index: 2, deleting: true });
    expect(decide(groupOf({}), [...pair(undefined, undefined), going]).remove).toEqual([]);
  });

  it.each([
    ["no state yet", undefined, { state: "" }, "pending", [2, 0, 0, 0]],
    ["dispatching counts as pending", { state: "dispatching" }, { state: "pending" }, "pending", [2, 0, 0, 0]],
    ["one runs", { state: "running" }, { state: "dispatching" }, "running", [1, 1, 0, 0]],
    ["one waits to be started again", { state: "exited" }, { state: "running" }, "running", [1, 1, 0, 0]],
    ["one failed, one waits", { state: "failed" }, { state: "pending" }, "running", [1, 0, 0, 1]],
    ["both ended well", { state: "completed" }, { state: "completed" }, "completed", [0, 0, 2, 0]],
    ["both ended, one failed", { state: "completed" }, { state: "failed" }, "failed", [0, 0, 1, 1]],
  ] as const)("adds up: %s", (_, a, b, state, [pending, running, succeeded, failed]) => {
    expect(decide(groupOf(), pair(a, b)).status).toMatchObject({
      state,
      totalTasks: 2,
      pendingTasks: pending,
      runningTasks: running,
      succeededTasks: succeeded,
      failedTasks: failed,
    });
  });

  it("says when the first task started and, once all ended, when the last did", () => {
    const tasks = pair(
      { state: "completed", startedAt: after(2000), finishedAt: after(3000) },
      { state: "completed", startedAt: after(1000), finishedAt: after(9000) },
    );
    expect(decide(groupOf(), tasks).status).toMatchObject({ startedAt: after(1000), completedAt: after(9000) });
    expect(decide(groupOf(), [tasks[0] ?? taskOf()]).status).not.toHaveProperty("completedAt");
  });

  it.each(["completed", "failed"] as const)("leaves a group that is %s as it is, though its Tasks are gone", (state) => {
    expect(decide(groupOf({}, { status: { state } }))).toEqual({ create: [], remove: [] });
  });

  it("makes nothing for a group that is being deleted", () => {
    expect(decide(groupOf({}, { deleting: true }))).toEqual({ create: [], remove: [] });
  });
});
