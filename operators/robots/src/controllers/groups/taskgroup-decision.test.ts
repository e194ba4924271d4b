import { describe, expect, it } from "vitest";
import type { Task } from "../../api/task.ts";
import { after, definition, groupOf, robotOf, t0, taskOf } from "../../testing/objects.ts";
import { decideTaskGroup } from "./taskgroup-decision.ts";
import type { TaskGroupObservation } from "./taskgroup-observation.ts";

const decide = (
  group: TaskGroupObservation["group"],
  tasks: TaskGroupObservation["tasks"] = [],
  named = tasks,
  robots: TaskGroupObservation["robots"] = [],
) => decideTaskGroup({ group, tasks, taskNamed: (name) => named.find((task) => task.metadata.name === name), robots, now: t0 });

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
  it("creates count copies of every task and names the Job and the group in them (B1)", () => {
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

  it("gives a task the affinities of its group and its own", () => {
    const [group, own] = [
      { lTarget: "${label.arm}", rTarget: "new" },
      { lTarget: "${label.dock}", rTarget: "1", weight: -10 },
    ];
    const { create } = decide(groupOf({ count: 1, affinities: [group], tasks: [{ ...definition, affinities: [own] }] }));
    expect(create[0]?.spec.affinities).toEqual([group, own]);
  });

  it("gives a task the spreads of its group and its own", () => {
    const [group, own] = [{ attribute: "${label.site}" }, { attribute: "${label.dock}", weight: 10 }];
    const { create } = decide(groupOf({ count: 1, spreads: [group], tasks: [{ ...definition, spreads: [own] }] }));
    expect(create[0]?.spec.spreads).toEqual([group, own]);
  });

  it("copies every field of a task definition to the Task (H2)", () => {
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

  it("creates a missing Task whatever the status says (B3)", () => {
    const status = { state: "running", totalTasks: 2, runningTasks: 2 } as const;
    expect(decide(groupOf({}, { status }), [taskOf()]).create.map((task) => task.name)).toEqual(["hello-workers-run-1"]);
  });

  it("waits until the Task of an earlier group of the same name is deleted", () => {
    const task = taskOf();
    const old = { ...task, metadata: { ...task.metadata, ownerReferences: [{ ...owner, uid: "group-0" }] } };
    expect(decide(groupOf(), [], [old]).create.map(({ name }) => name)).toEqual(["hello-workers-run-1"]);
  });

  it("uses another name if another group's Task has the plain one", () => {
    const task = taskOf();
    const foreign = { ...task, metadata: { ...task.metadata, ownerReferences: [{ ...owner, name: "hello", uid: "x" }] } };
    expect(decide(groupOf({ count: 1 }), [], [foreign]).create[0]?.name).toMatch(/^hello-workers-run-0-[0-9a-f]{10}$/);
  });

  it("deletes copies beyond count once", () => {
    const extra = taskOf(undefined, { name: "hello-workers-run-2", index: 2 });
    expect(decide(groupOf({}), [...pair(undefined, undefined), extra]).remove).toEqual(["hello-workers-run-2"]);
    const going = taskOf(undefined, { name: "hello-workers-run-2", index: 2, deleting: true });
    expect(decide(groupOf({}), [...pair(undefined, undefined), going]).remove).toEqual([]);
  });

  it.each([
    ["no state yet", undefined, { state: "" }, "pending", [2, 0, 0, 0]],
    ["dispatching counts as pending", { state: "dispatching" }, { state: "pending" }, "pending", [2, 0, 0, 0]],
    ["one running", { state: "running" }, { state: "dispatching" }, "running", [1, 1, 0, 0]],
    ["one waits for a restart", { state: "exited" }, { state: "running" }, "running", [1, 1, 0, 0]],
    ["one failed, one pending", { state: "failed" }, { state: "pending" }, "running", [1, 0, 0, 1]],
    ["both completed", { state: "completed" }, { state: "completed" }, "completed", [0, 0, 2, 0]],
    ["both ended, one failed", { state: "completed" }, { state: "failed" }, "failed", [0, 0, 1, 1]],
  ] as const)("aggregates: %s", (_, a, b, state, [pending, running, succeeded, failed]) => {
    expect(decide(groupOf(), pair(a, b)).status).toMatchObject({
      state,
      totalTasks: 2,
      pendingTasks: pending,
      runningTasks: running,
      succeededTasks: succeeded,
      failedTasks: failed,
    });
  });

  it("copies the policies of the group to its tasks", () => {
    const policies = { reschedulePolicy: { attempts: 1 }, disconnect: { lostAfter: "1m" } };
    for (const { spec } of decide(groupOf(policies), []).create) expect(spec).toMatchObject(policies);
  });

  it("reports the start of the first task and, once all have ended, the end of the last", () => {
    const tasks = pair(
      { state: "completed", startedAt: after(2000), finishedAt: after(3000) },
      { state: "completed", startedAt: after(1000), finishedAt: after(9000) },
    );
    expect(decide(groupOf(), tasks).status).toMatchObject({ startedAt: after(1000), completedAt: after(9000) });
    expect(decide(groupOf(), [tasks[0] ?? taskOf()]).status).not.toHaveProperty("completedAt");
  });

  it("counts lost tasks and says since when and why they are not moved", () => {
    const lost = {
      state: "running",
      conditions: [{ type: "Lost", status: "True", lastTransitionTime: "2026-01-01T00:00:00Z", reason: "x", message: "" }],
    } satisfies Task["status"];
    const { status } = decide(groupOf(), pair(lost, { state: "running" }));
    expect(status).toMatchObject({
      state: "running",
      runningTasks: 2,
      lostTasks: 1,
      lostSince: "2026-01-01T00:00:00Z",
      statusDescription:
        "2 tasks: 2 running; 1 unknown since 2026-01-01T00:00:00Z because its robot has stopped reporting; the message of each task says whether it moves",
    });
    expect(status?.conditions).toContainEqual(expect.objectContaining({ type: "Lost", status: "True" }));
    const found = decide(groupOf({}, { status }), pair({ state: "running" }, { state: "running" })).status;
    expect(found).not.toHaveProperty("lostTasks");
    expect(found?.conditions).toContainEqual(expect.objectContaining({ type: "Lost", status: "False" }));
  });

  it.each(["completed", "failed"] as const)("does not change a group that has %s, even if its Tasks are deleted", (state) => {
    expect(decide(groupOf({}, { status: { state } }))).toEqual({ create: [], remove: [] });
  });

  describe("of type system", () => {
    const system = groupOf({ type: "system", count: 7, robotSelector: { env: "demo" } });
    const robot = (name: string, rest: Parameters<typeof robotOf>[1] = {}) =>
      robotOf(name, { spec: { labels: { env: "demo" } }, ...rest });
    const robots = [
      robot("robot-001"),
      robot("robot-002", { status: { phase: "Offline" } }),
      robot("robot-003", { status: { phase: "Pending" } }),
      robot("robot-004", { status: { phase: "Online", drivers: ["docker"] } }),
      robotOf("robot-005"),
      robot("robot-006", { deleting: true }),
    ];

    it("creates one task for every approved robot that matches, whatever the count", () => {
      const { create } = decide(system, [], [], robots);
      expect(create.map(({ name, labels, spec }) => [name, labels.taskindex, spec.targetRobot, spec.type])).toEqual([
        ["hello-workers-run-robot-001", "robot-001", "robot-001", "system"],
        ["hello-workers-run-robot-002", "robot-002", "robot-002", "system"],
      ]);
    });

    const on = (name: string, state: NonNullable<Task["status"]>["state"]) => {
      const task = taskOf({ state }, { name: `hello-workers-run-${name}`, uid: name });
      return { ...task, metadata: { ...task.metadata, labels: { ...task.metadata.labels, taskindex: name } } };
    };

    it("creates a task for a robot that joins later, even after every earlier task ended", () => {
      const joined = robots.slice(0, 2);
      const first = decide(system, [on("robot-001", "completed")], [], joined.slice(0, 1)).status;
      expect(first).toMatchObject({ state: "running", succeededTasks: 1, totalTasks: 1 });
      const { create } = decide({ ...system, status: first }, [on("robot-001", "completed")], [], joined);
      expect(create.map(({ name }) => name)).toEqual(["hello-workers-run-robot-002"]);
    });

    it("completes as sysbatch, and runs again when a robot joins", () => {
      const sysbatch = { ...system, spec: { ...system.spec, type: "sysbatch" as const } };
      const done = on("robot-001", "completed");
      const first = decide(sysbatch, [done], [], robots.slice(0, 1)).status;
      expect(first).toMatchObject({ state: "completed", succeededTasks: 1 });
      const joined = decide({ ...sysbatch, status: first }, [done], [], robots.slice(0, 2));
      expect(joined.create.map(({ name }) => name)).toEqual(["hello-workers-run-robot-002"]);
      expect(joined.status).toMatchObject({ state: "running", totalTasks: 2 });
    });

    it("keeps the results of robots that no longer match as sysbatch", () => {
      const sysbatch = { ...system, spec: { ...system.spec, type: "sysbatch" as const } };
      const tasks = [on("robot-005", "completed"), on("robot-006", "running")];
      expect(decide(sysbatch, tasks, [], robots).remove).toEqual(["hello-workers-run-robot-006"]);
    });

    it("deletes the task of a robot that no longer matches", () => {
      const tasks = [on("robot-001", "running"), on("robot-005", "running")];
      expect(decide(system, tasks, [], robots).remove).toEqual(["hello-workers-run-robot-005"]);
    });
  });

  it("deletes the tasks beyond a lower count while a rollout is paused or has failed", () => {
    const tasks = [0, 1, 2].map((index) =>
      taskOf({ state: "running" }, { name: `hello-workers-run-${index}`, uid: String(index), index, spec: { revision: 1 } }),
    );
    const rollout = { stable: 1, isPaused: true };
    const group = groupOf({ count: 1, type: "service", revision: 2, rollout }, {});
    const stable = groupOf({ count: 3, type: "service" }).spec;
    const decision = decideTaskGroup({ group, tasks, stable, taskNamed: () => undefined, robots: [], now: t0 });
    expect(decision.remove).toEqual(["hello-workers-run-1", "hello-workers-run-2"]);
  });

  it("creates nothing for a group that is being deleted", () => {
    expect(decide(groupOf({}, { deleting: true }))).toEqual({ create: [], remove: [] });
  });
});
