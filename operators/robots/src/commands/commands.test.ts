import { expect, it } from "vitest";
import { parseResourceRequest } from "../placement/resource-request.ts";
import { robotOf, taskOf } from "../testing/objects.ts";
import { explainRobot, explainTask } from "./explain.ts";
import { describeRobots } from "./list.ts";

const one = robotOf("robot-001", { spec: { labels: { env: "demo" } }, status: { phase: "Online", drivers: ["exec"] } });
const cordoned = robotOf("robot-002", { spec: { unschedulable: true } });

it("lists robots with their active tasks", () => {
  const tasks = [taskOf({ state: "running" }, { bound: true }), taskOf({ state: "completed" }, { bound: true })];
  expect(
    describeRobots([one, cordoned], tasks, "default")
      .split("\n")
      .map((line) => line.split(/\s{2,}/)),
  ).toEqual([
    ["NAME", "PHASE", "TASKS", "DRIVERS", "LABELS", "LAST HEARTBEAT"],
    ["robot-001", "Online", "1", "exec", "env=demo", "-"],
    ["robot-002", "Online,Cordoned", "0", "-", "-", "-"],
    [""],
  ]);
  expect(describeRobots([], [], "default")).toBe(
    "No robots in namespace default; start an agent: keelson robots agent --help\n",
  );
});

it("explains why each robot does not fit a task, with the load of the others", () => {
  const small = robotOf("robot-003", { status: { phase: "Online", deviceInfo: { cpu: { logicalCores: 2 } } } });
  const resources = { cpu: "1500m" };
  expect(parseResourceRequest(resources).cpu).toBe(1.5);
  const other = taskOf({ state: "running" }, { uid: "other", spec: { resources, targetRobot: "robot-003" } });
  const task = taskOf({ state: "pending", message: "why" }, { spec: { resources } });
  const text = explainTask({ task, job: undefined, robots: [one, cordoned, small], tasks: [task, other] });
  expect(text).toMatch(/Message: +why/);
  expect(text).toMatch(/robot-001 +yes/);
  expect(text).toMatch(/robot-002 +no +cordoned/);
  expect(text).toMatch(/robot-003 +no +short of cpu \(requested 1500m, available 500m of 2\)/);
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
  expect(text).toMatch(/big +no +short of cpu \(requested 1500m, available 500m of 2\)\n/);
  expect(text).toMatch(/small +yes\n/);
});
