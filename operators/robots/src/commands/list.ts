import type { DeepReadonly } from "@keelson/api-machinery";
import { type CommandDefinition, formatResult, outputFlag, renderTable } from "@keelson/operator";
import { Robot } from "../api/robot.ts";
import { Task } from "../api/task.ts";
import { namespaceFlag } from "./flags.ts";

/** `keelson robots list`. */
export const listCommand: CommandDefinition = {
  name: "list",
  description: "list robots with their phase and number of tasks",
  flags: [namespaceFlag, outputFlag],
  async run({ flags, stdout, signal, client: connect }) {
    const client = await connect();
    try {
      const namespace = namespaceFlag.read(flags);
      const [robots, tasks] = await Promise.all([
        client.list(Robot, { namespace, signal }),
        client.list(Task, { namespace, signal }),
      ]);
      stdout.write(formatResult({ flags }, robots.items, () => describeRobots(robots.items, tasks.items, namespace)));
      return 0;
    } finally {
      await client.close();
    }
  },
};

/** A table of robots, or how to get one. */
export function describeRobots(
  robots: readonly DeepReadonly<Robot>[],
  tasks: readonly DeepReadonly<Task>[],
  namespace: string,
): string {
  if (robots.length === 0) return `No robots in namespace ${namespace}; start an agent: keelson robots agent --help\n`;
  const active = new Map<string, number>();
  for (const { spec, status } of tasks) {
    if (status?.state === "completed" || status?.state === "failed") continue;
    if (spec.targetRobot !== undefined) active.set(spec.targetRobot, (active.get(spec.targetRobot) ?? 0) + 1);
  }
  const rows = robots.map(({ metadata, spec, status }) => [
    metadata.name ?? "",
    `${status?.phase ?? "Pending"}${spec.unschedulable === true ? ",Cordoned" : ""}`,
    String(active.get(metadata.name ?? "") ?? 0),
    status?.drivers?.join(",") ?? "-",
    Object.entries(spec.labels ?? {})
      .map(([key, value]) => `${key}=${value}`)
      .join(",") || "-",
    status?.lastHeartbeatTime ?? "-",
  ]);
  return renderTable([["NAME", "PHASE", "TASKS", "DRIVERS", "LABELS", "LAST HEARTBEAT"], ...rows]);
}
