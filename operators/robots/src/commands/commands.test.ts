import { expect, it } from "vitest";
import { parse } from "yaml";
import { parseResourceRequest } from "../placement/resource-request.ts";
import { robotOf, taskOf } from "../testing/objects.ts";
import { explainRobot, explainTask } from "./explain.ts";
import { formatRobots } from "./get.ts";
import { countActiveTasks, robotCells } from "./list.ts";
import { describeSummary, describeUses, summarize } from "./top.ts";

const one = robotOf("robot-001", { spec: { labels: { env: "demo" } }, status: { phase: "Online", drivers: ["exec"] } });
const cordoned = robotOf("robot-002", { spec: { unschedulable: true } });

it("lists robots with their active tasks", () => {
  const tasks = [taskOf({ state: "running" }, { bound: true }), taskOf({ state: "completed" }, { bound: true })];
  const active = countActiveTasks(tasks);
  expect(robotCells(one, active)).toEqual(["Online", "1", "exec", "env=demo", "-"]);
  expect(robotCells(cordoned, active)).toEqual(["Online,Cordoned", "0", "-", "-", "-"]);
  const namesake = { ...one, metadata: { ...one.metadata, namespace: "other" } };
  expect(robotCells(namesake, active)[1]).toBe("0");
});

it("explains why each robot does not fit a task, with the load of the others", () => {
  const small = robotOf("robot-003", { status: { phase: "Online", deviceInfo: { cpu: { logicalCores: 2 } } } });
  const resources = { cpu: "1500m" };
  expect(parseResourceRequest(resources).cpu).toBe(1.5);
  const other = taskOf({ state: "running" }, { uid: "other", spec: { resources, targetRobot: "robot-003" } });
  const task = taskOf({ state: "pending", message: "why" }, { spec: { resources } });
  const text = explainTask({ task, job: undefined, robots: [one, cordoned, small], tasks: [task, other] });
  expect(text).toMatch(/Message: +why/);
  expect(text).toMatch(/robot-001 +yes +0\.00 +0/);
  expect(text).toMatch(/robot-002 +no +0\.00 +0 +cordoned/);
  expect(text).toMatch(/robot-003 +no +0\.00 +1 +short of cpu \(requested 1500m, available 500m of 2\)/);
});

it("explains how well each robot suits the affinities of a task", () => {
  const affinities = [{ lTarget: "${label.env}", rTarget: "demo", weight: 100 }];
  const text = explainTask({
    task: taskOf(undefined, { spec: { affinities } }),
    job: undefined,
    robots: [one, cordoned],
    tasks: [],
  });
  expect(text).toMatch(/robot-001 +yes +1\.00/);
  expect(text).toMatch(/robot-002 +no +0\.00/);
});

it("explains how well each robot suits the spreads of a task, with its other copies", () => {
  const spec = { spreads: [{ attribute: "${label.env}", targets: [{ value: "demo", percent: 100 }] }] };
  const copy = taskOf({ state: "running" }, { name: "copy", uid: "copy", spec: { ...spec, targetRobot: "robot-001" } });
  const task = taskOf(undefined, { spec });
  const text = explainTask({ task, job: undefined, robots: [one, cordoned], tasks: [task, copy] });
  expect(text).toMatch(/robot-001 +yes +0\.00/);
  expect(text).toMatch(/robot-002 +no +-1\.00/);
});

it("explains a robot: its resources, its tasks, and why a waiting task does not fit", () => {
  const robot = robotOf("robot-003", {
    spec: { labels: { env: "demo" } },
    status: { phase: "Online", drivers: ["exec"], deviceInfo: { cpu: { logicalCores: 2 } } },
  });
  const resources = { cpu: "1500m" };
  const own = taskOf(
    { state: "running", message: "Task started" },
    { uid: "a", name: "own", spec: { resources, targetRobot: "robot-003" } },
  );
  const big = taskOf({ state: "pending" }, { uid: "b", name: "big", spec: { resources } });
  const small = taskOf(undefined, { uid: "c", name: "small" });
  const text = explainRobot({ robot, jobs: [], tasks: [own, big, small] });
  expect(text).toMatch(/Schedulable: +yes\n/);
  expect(text).toMatch(/CPU: +1500m of 2\n/);
  expect(text).toMatch(/Memory: +0 of unknown\n/);
  expect(text).toMatch(/TASK +STATE +MESSAGE\nown +running +Task started\n/);
  expect(text).toMatch(/big +50 +no +short of cpu \(requested 1500m, available 500m of 2\)\n/);
  expect(text).toMatch(/small +50 +yes\n/);
});

it("explains which tasks a waiting task would stop", () => {
  const robot = robotOf("robot-003", {
    status: { phase: "Online", agentFeatures: ["leases"], deviceInfo: { cpu: { logicalCores: 2 } } },
  });
  const resources = { cpu: "1500m" };
  const low = taskOf(
    { state: "running", attempt: 1 },
    { uid: "a", name: "low", spec: { resources, priority: 20, targetRobot: "robot-003" } },
  );
  const explain = (spec: Parameters<typeof taskOf>[1]) =>
    explainTask({ task: taskOf(undefined, spec), job: undefined, robots: [robot], tasks: [low] });
  const preemptionPolicy = "PreemptLowerPriority";
  expect(explain({ spec: { resources, priority: 80, preemptionPolicy } })).toMatch(
    /Priority: +80\nPreemption: +waits for room on robot-003: stops low \(priority 20\)\n/,
  );
  expect(explain({ spec: { resources, priority: 80 } })).toMatch(/Preemption: +none, spec.preemptionPolicy is Never\n/);
  expect(explain({ spec: { resources, priority: 29, preemptionPolicy } })).toMatch(
    /Preemption: +stopping tasks of lower priority does not make enough room\n/,
  );
  expect(explain({ spec: { priority: 80, preemptionPolicy } })).not.toContain("Preemption");
  const condition = {
    type: "Preempted",
    reason: "HigherPriority",
    message: "by x",
    lastTransitionTime: "2026-01-01T00:00:00Z",
  };
  const preempted = (status: "True" | "False"): string =>
    explainTask({
      task: taskOf({ state: "pending", conditions: [{ ...condition, status }] }),
      job: undefined,
      robots: [],
      tasks: [],
    });
  expect(preempted("True")).toMatch(/Preempted: +by x\n/);
  expect(preempted("False")).not.toContain("Preempted");
});

it("prints robots in every format", () => {
  const deviceInfo = { hostname: "arm-1", platform: { os: "linux", arch: "arm64" }, cpu: { logicalCores: 4 } };
  const robot = robotOf("robot-003", { status: { phase: "Online", drivers: ["exec"], deviceInfo } });
  const print = (robots: readonly (typeof robot)[], kind: "table" | "wide" | "json" | "yaml" | "name") =>
    formatRobots(robots, { kind }, { isSingle: robots.length === 1 });
  const lines = (format: "table" | "wide") =>
    print([robot, cordoned], format)
      .split("\n")
      .map((line) => line.split(/\s{2,}/));
  expect(lines("table")).toEqual([
    ["NAME", "PHASE", "HOSTNAME", "OS", "CPUS", "MEMORY", "LAST HEARTBEAT"],
    ["robot-003", "Online", "arm-1", "linux", "4", "-", "-"],
    ["robot-002", "Online", "-", "-", "-", "-", "-"],
    [""],
  ]);
  expect(lines("wide")[1]).toEqual([
    ...["robot-003", "Online", "arm-1", "linux", "4", "-", "-"],
    ...["arm64", "-", "-", "exec", "-"],
  ]);
  expect(print([robot], "name")).toBe("robot.robot.k8s4r.io/robot-003\n");
  expect(JSON.parse(print([robot], "json"))).toEqual(robot);
  expect(JSON.parse(print([robot, one], "json"))).toEqual({ apiVersion: "v1", kind: "List", items: [robot, one] });
  expect(parse(print([robot], "yaml"))).toEqual(robot);
});

it("counts a fleet and its tasks, by the values of a label", () => {
  const lost = [{ type: "Lost", status: "True", reason: "", message: "", lastTransitionTime: "" }] as const;
  const on = (robot: string, status: object) => taskOf(status, { spec: { targetRobot: robot } });
  const tasks = [
    on("robot-001", { state: "running" }),
    on("robot-001", { state: "completed" }),
    on("robot-002", { state: "running", conditions: lost }),
    taskOf({ state: "pending" }),
  ];
  const summary = summarize([one, cordoned], tasks, "env");
  expect(summary).toEqual({
    lines: [
      { value: "", robots: 1, online: 1, offline: 0, closed: 1, running: 0, lost: 1 },
      { value: "demo", robots: 1, online: 1, offline: 0, closed: 0, running: 1, lost: 0 },
    ],
    waiting: 1,
  });
  expect(describeSummary(summary, "env")).toMatch(/^ENV +ROBOTS .*\n- +1 .*\ndemo +1 +1 .*\n1 tasks wait for a robot\n$/);
  expect(summarize([one, cordoned], tasks, undefined).lines).toMatchObject([{ robots: 2, running: 1, lost: 1 }]);
});

it("shows what robots use, as far as they have reported it", () => {
  const unknown = { cpuPercent: undefined, cores: undefined, memoryUsed: undefined, memoryTotal: undefined };
  const none = { ...unknown, diskFree: undefined, batteryPercent: undefined, measuredSecondsAgo: undefined };
  const known = { cpuPercent: 12.5, cores: 4, memoryUsed: 2 ** 30, memoryTotal: 2 ** 32, diskFree: 2 ** 33 };
  const uses = [
    { robot: "r1", phase: "Online", runningTasks: 2, ...known, batteryPercent: 80, measuredSecondsAgo: 7 },
    { robot: "r2", phase: "Pending", runningTasks: 0, ...none },
  ];
  expect(
    describeUses(uses)
      .split("\n")
      .map((line) => line.split(/\s{2,}/)),
  ).toEqual([
    ["NAME", "PHASE", "CPU", "CORES", "MEMORY", "DISK FREE", "BATTERY", "RUNNING", "MEASURED"],
    ["r1", "Online", "13%", "4", "1Gi/4Gi", "8Gi", "80%", "2", "7s"],
    ["r2", "Pending", "-", "-", "-", "-", "-", "0", "-"],
    [""],
  ]);
});
