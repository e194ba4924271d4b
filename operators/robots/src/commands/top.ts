import { type DeepReadonly, isConditionTrue } from "@keelson/api-machinery";
import { type CommandDefinition, formatResult, outputFlag, renderTable } from "@keelson/operator";
import { switchFlag, textFlag } from "@keelson/operator/flags";
import { Robot } from "../api/robot.ts";
import { Task } from "../api/task.ts";
import { formatBytes } from "../placement/resource-request.ts";
import { namespaceFlag } from "./flags.ts";

const flags = {
  summary: switchFlag({ name: "summary", description: "count the robots and tasks of the fleet instead of listing robots" }),
  by: textFlag({ name: "by", value: "LABEL", description: "with --summary: a line for each value of this label of Robots" }),
};

/** `keelson robots top [ROBOT ...]`. */
export const topCommand: CommandDefinition = {
  name: "top",
  description: "show the CPU, memory, disk and battery usage that robots reported, or a summary of the fleet",
  args: ["[ROBOTS...]"],
  flags: [namespaceFlag, outputFlag, ...Object.values(flags)],
  async run({ args, flags: values, stdout, stderr, signal, clock, client: connect }) {
    const namespace = namespaceFlag.read(values);
    const client = await connect();
    try {
      const [robots, tasks] = await Promise.all([
        client.list(Robot, { namespace, signal }),
        client.list(Task, { namespace, signal }),
      ]);
      const missing = args.filter((name) => !robots.items.some(({ metadata }) => metadata.name === name));
      const chosen =
        args.length === 0 ? robots.items : robots.items.filter(({ metadata }) => args.includes(metadata.name ?? ""));
      if (flags.summary.read(values) || flags.by.read(values) !== undefined) {
        const summary = summarize(chosen, tasks.items, flags.by.read(values));
        stdout.write(formatResult({ flags: values }, summary, () => describeSummary(summary, flags.by.read(values))));
      } else if (chosen.length > 0) {
        const uses = chosen.map((robot) => useOf(robot, tasks.items, clock.now()));
        stdout.write(formatResult({ flags: values }, uses, () => describeUses(uses)));
      }
      for (const name of missing) {
        stderr.write(`robot ${name} not found in namespace ${namespace}; list robots: keelson robots list -n ${namespace}\n`);
      }
      return missing.length === 0 ? 0 : 1;
    } finally {
      await client.close();
    }
  },
};

/** What a robot has reported. Undefined: it has not. */
interface RobotUse {
  readonly robot: string;
  readonly phase: string;
  readonly cpuPercent: number | undefined;
  readonly cores: number | undefined;
  readonly memoryUsed: number | undefined;
  readonly memoryTotal: number | undefined;
  readonly diskFree: number | undefined;
  readonly batteryPercent: number | undefined;
  readonly runningTasks: number;
  /** Age of the measurements. */
  readonly measuredSecondsAgo: number | undefined;
}

function useOf({ metadata, status }: DeepReadonly<Robot>, tasks: readonly DeepReadonly<Task>[], now: number): RobotUse {
  const { cpu, memory, disks, battery } = status?.deviceInfo ?? {};
  const robot = metadata.name ?? "";
  const lastHeartbeat = status?.lastHeartbeatTime;
  return {
    robot,
    phase: status?.phase ?? "Pending",
    cpuPercent: cpu?.usagePercent,
    cores: cpu?.logicalCores,
    memoryUsed: memory?.used,
    memoryTotal: memory?.total,
    diskFree: disks?.[0]?.free,
    batteryPercent: battery?.percent,
    runningTasks: tasks.filter((task) => task.spec.targetRobot === robot && task.status?.state === "running").length,
    measuredSecondsAgo:
      lastHeartbeat === undefined ? undefined : Math.max(Math.round((now - Date.parse(lastHeartbeat)) / 1000), 0),
  };
}

/** A table of what robots use. */
export function describeUses(uses: readonly RobotUse[]): string {
  const percent = (value: number | undefined): string => (value === undefined ? "-" : `${Math.round(value)}%`);
  const bytes = (value: number | undefined): string => (value === undefined ? "-" : formatBytes(value));
  const rows = uses.map((use) => [
    use.robot,
    use.phase,
    percent(use.cpuPercent),
    use.cores?.toString() ?? "-",
    use.memoryUsed === undefined ? "-" : `${bytes(use.memoryUsed)}/${bytes(use.memoryTotal)}`,
    bytes(use.diskFree),
    percent(use.batteryPercent),
    String(use.runningTasks),
    use.measuredSecondsAgo === undefined ? "-" : `${use.measuredSecondsAgo}s`,
  ]);
  return renderTable([["NAME", "PHASE", "CPU", "CORES", "MEMORY", "DISK FREE", "BATTERY", "RUNNING", "MEASURED"], ...rows]);
}

/** Counts of robots, and of tasks on them. */
interface FleetLine {
  /** A value of the label; empty for robots without it, and for the whole fleet. */
  readonly value: string;
  robots: number;
  online: number;
  offline: number;
  /** Robots that get no tasks: cordoned, held or not approved. */
  closed: number;
  running: number;
  lost: number;
}

/** Counts of a fleet, and of tasks that have no robot. */
export interface FleetSummary {
  readonly lines: readonly FleetLine[];
  readonly waiting: number;
}

/** Counts robots and their unfinished tasks in one pass each. */
export function summarize(
  robots: readonly DeepReadonly<Robot>[],
  tasks: readonly DeepReadonly<Task>[],
  label: string | undefined,
): FleetSummary {
  const lines = new Map<string, FleetLine>();
  const lineOf = new Map<string, FleetLine>();
  for (const { metadata, spec, status } of robots) {
    const value = label === undefined ? "" : (spec.labels?.[label] ?? "");
    const line = lines.get(value) ?? { value, robots: 0, online: 0, offline: 0, closed: 0, running: 0, lost: 0 };
    lines.set(value, line);
    lineOf.set(metadata.name ?? "", line);
    line.robots++;
    if (status?.phase === "Online") line.online++;
    if (status?.phase === "Offline") line.offline++;
    const isHeld = isConditionTrue(status?.conditions, "Held") || spec.approved === false;
    if (isHeld || spec.unschedulable === true || (status?.phase ?? "Pending") === "Pending") line.closed++;
  }
  let waiting = 0;
  for (const { spec, status } of tasks) {
    if (status?.state === "completed" || status?.state === "failed") continue;
    if (spec.targetRobot === undefined) waiting++;
    const line = lineOf.get(spec.targetRobot ?? "");
    if (line === undefined) continue;
    if (isConditionTrue(status?.conditions, "Lost")) line.lost++;
    else if (status?.state === "running") line.running++;
  }
  return { lines: [...lines.values()].sort((a, b) => (a.value < b.value ? -1 : 1)), waiting };
}

/** A table of the counts of a fleet. */
export function describeSummary({ lines, waiting }: FleetSummary, label: string | undefined): string {
  const columns = ["ROBOTS", "ONLINE", "OFFLINE", "CLOSED", "RUNNING TASKS", "LOST TASKS"];
  const rows = lines.map(({ value, robots, online, offline, closed, running, lost }) => [
    ...(label === undefined ? [] : [value || "-"]),
    ...[robots, online, offline, closed, running, lost].map(String),
  ]);
  const table = renderTable([[...(label === undefined ? [] : [label.toUpperCase()]), ...columns], ...rows]);
  return waiting === 0 ? table : `${table}${waiting} tasks wait for a robot\n`;
}
