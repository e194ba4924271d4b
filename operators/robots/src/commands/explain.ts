import type { DeepReadonly } from "@keelson/api-machinery";
import { type CommandDefinition, renderTable } from "@keelson/operator";
import { switchFlag } from "@keelson/operator/flags";
import type { RobotDevice } from "../api/device.ts";
import { Job } from "../api/job.ts";
import { Robot } from "../api/robot.ts";
import { Task } from "../api/task.ts";
import { demandOf } from "../placement/demand.ts";
import { idsOf } from "../placement/devices.ts";
import { explainRobots, preferenceScorer } from "../placement/placement.ts";
import { coresOf, formatBytes, formatCores, diskOf } from "../placement/resource-request.ts";
import { copiesAmong } from "../placement/robot-loads.ts";
import { isWaiting, loadFor, loadOf, priorityOf, usesAmong } from "../placement/robot-use.ts";
import { decideTaskPreemption, describePreemption, isPreemptedBy } from "../controllers/moves/preemption-decision.ts";
import { namespaceFlag } from "./flags.ts";

const robotFlag = switchFlag({ name: "robot", description: "treat the name as a robot's, even if a task has the same name" });

/** `keelson robots explain TASK` or `ROBOT`. */
export const explainCommand: CommandDefinition = {
  name: "explain",
  description: "show the state of a task or a robot, and which robots or waiting tasks fit it or why they do not",
  args: ["NAME"],
  flags: [robotFlag, namespaceFlag],
  async run({ args, flags, stdout, stderr, signal, client: connect }) {
    const [name = ""] = args;
    const namespace = namespaceFlag.read(flags);
    const client = await connect();
    try {
      const [{ items: jobs }, { items: robots }, { items: tasks }] = await Promise.all([
        client.list(Job, { namespace, signal }),
        client.list(Robot, { namespace, signal }),
        client.list(Task, { namespace, signal }),
      ]);
      const task = robotFlag.read(flags) ? undefined : tasks.find(({ metadata }) => metadata.name === name);
      const robot = robots.find(({ metadata }) => metadata.name === name);
      if (task !== undefined) {
        const job = jobs.find(({ metadata }) => metadata.name === task.spec.jobName);
        stdout.write(explainTask({ task, job, robots, tasks }));
        return 0;
      }
      if (robot !== undefined) {
        stdout.write(explainRobot({ robot, jobs, tasks }));
        return 0;
      }
      stderr.write(
        `neither a task nor a robot is named ${name} in namespace ${namespace}; list them: kubectl get rtask,rb -n ${namespace}\n`,
      );
      return 1;
    } finally {
      await client.close();
    }
  },
};

/** The state of a task and a table of robots. */
export function explainTask({
  task,
  job,
  robots,
  tasks,
}: {
  readonly task: DeepReadonly<Task>;
  readonly job: DeepReadonly<Job> | undefined;
  readonly robots: readonly DeepReadonly<Robot>[];
  readonly tasks: readonly DeepReadonly<Task>[];
}): string {
  const { status, spec, metadata } = task;
  const facts = [
    ["Task:", metadata.name ?? ""],
    ["State:", status?.state || "pending"],
    ["Message:", status?.message ?? "-"],
    ["Robot:", spec.targetRobot ?? "-"],
    ["Devices:", idsOf(spec.targetDevices).join(", ") || "-"],
    ["Attempt:", String(status?.attempt ?? 0)],
    ["Moves:", String(status?.moves ?? 0)],
    ["Priority:", String(priorityOf(task))],
  ];
  const preempted = status?.conditions?.find(({ type }) => type === "Preempted");
  if (preempted?.status === "True") facts.push(["Preempted:", preempted.message]);
  const isBound = spec.targetRobot !== undefined && status?.attempt !== undefined;
  // The robot of a bound task does not pin it.
  const { pinned, ...demand } = demandOf(task, job);
  const wanted = isBound || pinned === undefined ? demand : { ...demand, pinned };
  const others = tasks.filter((each) => each.metadata.uid !== metadata.uid);
  const usesOf = (robot: string) => usesAmong(others, robot);
  const reasons = explainRobots(wanted, robots, (robot) => loadFor(task, usesOf(robot)));
  const scoreOf = preferenceScorer(wanted, robots, copiesAmong(task, job, others));
  if (isWaiting(task) && !reasons.includes(undefined)) {
    const isChosen = (other: DeepReadonly<Task>): boolean => others.some((each) => isPreemptedBy(other, each));
    const preemption = decideTaskPreemption(task, wanted, { robots, usesOf, isChosen, scoreOf });
    facts.push(["Preemption:", preemption === undefined ? withoutPreemption(task) : describePreemption(preemption)]);
  }
  const rows = robots.map((robot, index) => [
    robot.metadata.name ?? "",
    reasons[index] === undefined ? "yes" : "no",
    scoreOf(robot).toFixed(2),
    String(loadFor(task, usesOf(robot.metadata.name ?? "")).tasks),
    reasons[index] ?? "",
  ]);
  return `${renderTable(facts)}\n${renderTable([["ROBOT", "FITS", "SCORE", "TASKS", "REASON"], ...rows])}`;
}

function withoutPreemption({ spec }: DeepReadonly<Task>): string {
  return spec.preemptionPolicy === "PreemptLowerPriority"
    ? "stopping tasks of lower priority does not make enough room"
    : "none, spec.preemptionPolicy is Never";
}

/** The state of a robot, its tasks, and for each waiting task whether it fits. */
export function explainRobot({
  robot,
  jobs,
  tasks,
}: {
  readonly robot: DeepReadonly<Robot>;
  readonly jobs: readonly DeepReadonly<Job>[];
  readonly tasks: readonly DeepReadonly<Task>[];
}): string {
  const { metadata, spec, status } = robot;
  const { name = "" } = metadata;
  const uses = usesAmong(tasks, name);
  const load = loadOf(uses);
  const labels = Object.entries(spec.labels ?? {}).map(([key, value]) => `${key}=${value}`);
  const facts = [
    ["Robot:", name],
    ["Phase:", status?.phase ?? "Pending"],
    ["Message:", status?.message ?? "-"],
    ["Schedulable:", spec.drain !== undefined ? "no, draining" : spec.unschedulable === true ? "no, cordoned" : "yes"],
    ["Labels:", labels.join(",") || "-"],
    ["Drivers:", status?.drivers?.join(",") ?? "unknown"],
    [
      "CPU:",
      `${formatCores(coresOf(load, status?.deviceInfo?.cpu?.mhz))} of ${status?.deviceInfo?.cpu?.logicalCores ?? "unknown"}`,
    ],
    ["Memory:", `${formatBytes(load.memoryBytes)} of ${formatTotal(status?.deviceInfo?.memory?.total)}`],
    ["Disk:", `${formatBytes(load.diskBytes)} of ${formatTotal(diskOf(robot))}`],
    ["Devices:", describeDevices(status?.deviceInfo?.devices ?? [], load.devices.used)],
    ["Last heartbeat:", status?.lastHeartbeatTime ?? "-"],
  ];
  const own = tasks
    .filter((task) => task.spec.targetRobot === name && !isWaiting(task))
    .map((task) => [task.metadata.name ?? "", task.status?.state ?? "", task.status?.message ?? ""]);
  const waiting = tasks.filter(isWaiting).map((task) => {
    const job = jobs.find((each) => each.metadata.name === task.spec.jobName);
    const others = uses.filter((use) => use.task.metadata.uid !== task.metadata.uid);
    const [reason] = explainRobots(demandOf(task, job), [robot], () => loadFor(task, others));
    return [task.metadata.name ?? "", String(priorityOf(task)), reason === undefined ? "yes" : "no", reason ?? ""];
  });
  return [
    renderTable(facts),
    ...(own.length === 0 ? [] : [renderTable([["TASK", "STATE", "MESSAGE"], ...own])]),
    ...(waiting.length === 0 ? [] : [renderTable([["WAITING TASK", "PRIORITY", "FITS", "REASON"], ...waiting])]),
  ].join("\n");
}

/** The devices of a robot, with the number of tasks that have each one. */
function describeDevices(devices: DeepReadonly<RobotDevice[]>, used: readonly string[]): string {
  const texts = devices.map(({ id, name, shares = 1 }) => {
    const users = used.filter((each) => each === id).length;
    return `${name} ${id} (${users === 0 ? "free" : shares === 1 ? "in use" : `${users} of ${shares} shares in use`})`;
  });
  return texts.join(", ") || "-";
}

const formatTotal = (bytes: number | undefined): string => (bytes === undefined ? "unknown" : formatBytes(bytes));
