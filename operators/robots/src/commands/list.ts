import type { DeepReadonly } from "@keelson/api-machinery";
import { type CommandDefinition, listFlagsOf, listObjects } from "@keelson/operator";
import { Robot } from "../api/robot.ts";
import { Task } from "../api/task.ts";
import { namespaceFlag } from "./flags.ts";

/** `keelson robots list`. */
export const listCommand: CommandDefinition = {
  name: "list",
  description: "list robots with their phase and number of tasks",
  flags: listFlagsOf(namespaceFlag),
  run: (context) =>
    listObjects(context, {
      types: [Robot],
      namespaceFlag,
      columns: robotColumns,
      async cells(client, scope) {
        const { items } = await client.list(Task, scope);
        const active = countActiveTasks(items);
        return (robot) => robotCells(robot as DeepReadonly<Robot>, active);
      },
      empty: (namespace) =>
        `No robots${namespace === undefined ? "" : ` in namespace ${namespace}`}; start an agent: keelson robots agent --help`,
    }),
};

/** Headings of {@link robotCells}. */
const robotColumns = ["PHASE", "TASKS", "DRIVERS", "LABELS", "LAST HEARTBEAT"];

/** Number of active tasks per robot, by {@link robotId}. */
export function countActiveTasks(tasks: readonly DeepReadonly<Task>[]): ReadonlyMap<string, number> {
  const active = new Map<string, number>();
  for (const { metadata, spec, status } of tasks) {
    if (status?.state === "completed" || status?.state === "failed" || spec.targetRobot === undefined) continue;
    const robot = robotId(metadata.namespace, spec.targetRobot);
    active.set(robot, (active.get(robot) ?? 0) + 1);
  }
  return active;
}

const robotId = (namespace: string | undefined, name: string | undefined): string => `${namespace ?? ""}/${name ?? ""}`;

/** The cells of a robot. */
export function robotCells(
  { metadata, spec, status }: DeepReadonly<Robot>,
  active: ReadonlyMap<string, number>,
): readonly string[] {
  return [
    `${status?.phase ?? "Pending"}${spec.unschedulable === true ? ",Cordoned" : ""}`,
    String(active.get(robotId(metadata.namespace, metadata.name)) ?? 0),
    status?.drivers?.join(",") ?? "-",
    Object.entries(spec.labels ?? {})
      .map(([key, value]) => `${key}=${value}`)
      .join(",") || "-",
    status?.lastHeartbeatTime ?? "-",
  ];
}
