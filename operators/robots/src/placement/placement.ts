import type { DeepReadonly } from "@keelson/api-machinery";
import { isQuantity, quantityToBytes, quantityToMillis } from "@keelson/api-machinery/quantity";
import type { Constraint } from "../api/constraint.ts";
import type { Robot } from "../api/robot.ts";
import type { TaskResources } from "../api/task-resources.ts";
import { violationOf } from "./constraint.ts";

/** What the tasks that a robot has already take of it. */
export interface Load {
  readonly tasks: number;
  /** Cores. */
  readonly cpu: number;
  readonly memoryBytes: number;
}

/** What a task demands. */
export interface Demand {
  readonly selector: Readonly<Record<string, string>>;
  readonly constraints: readonly DeepReadonly<Constraint>[];
  readonly cpu: number;
  readonly memoryBytes: number;
  /** The one robot that may run it, where that is settled. */
  readonly pinned?: string;
}

/** A robot, or why there is none. */
export type Placement =
  | { readonly kind: "placed"; readonly robot: DeepReadonly<Robot> }
  | { readonly kind: "none"; readonly message: string };

/** A robot without work. */
export const noLoad: Load = { tasks: 0, cpu: 0, memoryBytes: 0 };

/** Cores and bytes that resources ask for; what cannot be read asks for nothing. */
export function amountsOf(resources: DeepReadonly<TaskResources> | undefined): {
  readonly cpu: number;
  readonly memoryBytes: number;
} {
  return {
    cpu: isQuantity(resources?.cpu) ? quantityToMillis(resources.cpu) / 1000 : 0,
    memoryBytes: isQuantity(resources?.memory) ? quantityToBytes(resources.memory) : 0,
  };
}

/**
 * Chooses the robot for a task: of those that are Online, match the selector, meet every constraint and have the resources
 * left, the one with the fewest tasks, the first by name among equals. So copies of a group spread over the robots.
 *
 * A robot that does not report its cores or memory counts as having enough of them.
 */
export function decidePlacement(
  demand: Demand,
  robots: readonly DeepReadonly<Robot>[],
  loadOf: (robot: string) => Load,
): Placement {
  const refusals = new Map<string, number>();
  let best: { readonly robot: DeepReadonly<Robot>; readonly tasks: number } | undefined;
  for (const robot of robots) {
    const load = loadOf(robot.metadata.name ?? "");
    const refusal = refusalOf(demand, robot, load);
    if (refusal !== undefined) {
      refusals.set(refusal, (refusals.get(refusal) ?? 0) + 1);
    } else if (
      best === undefined ||
      load.tasks < best.tasks ||
      (load.tasks === best.tasks && (robot.metadata.name ?? "") < (best.robot.metadata.name ?? ""))
    ) {
      best = { robot, tasks: load.tasks };
    }
  }
  if (best) return { kind: "placed", robot: best.robot };
  return { kind: "none", message: explain(robots.length, refusals) };
}

/** The first filter that keeps the task off the robot, in words that follow "1" and "2". */
function refusalOf(demand: Demand, robot: DeepReadonly<Robot>, load: Load): string | undefined {
  if (demand.pinned !== undefined && robot.metadata.name !== demand.pinned) return `not the chosen robot ${demand.pinned}`;
  if (robot.metadata.deletionTimestamp !== undefined) return "being deleted";
  const missing = Object.entries(demand.selector).filter(
    ([key, value]) =>
      robot.spec.labels === undefined || !Object.hasOwn(robot.spec.labels, key) || robot.spec.labels[key] !== value,
  );
  if (missing.length > 0) {
    return `not matching robotSelector ${missing.map(([key, value]) => `${key}=${value}`).join(",")}`;
  }
  const phase = robot.status?.phase ?? "Pending";
  if (phase === "Pending") return "pending approval";
  if (phase !== "Online") return phase.toLowerCase();
  for (const constraint of demand.constraints) {
    const violation = violationOf(constraint, robot);
    if (violation !== undefined) return `not meeting the constraint ${violation}`;
  }
  const cores = robot.status?.deviceInfo?.cpu?.logicalCores;
  // Sums of fractions such as 0.1 miss whole numbers by a little.
  if (demand.cpu > 0 && cores !== undefined && load.cpu + demand.cpu > cores + 1e-9) return "short of cpu";
  const memory = robot.status?.deviceInfo?.memory?.total;
  if (demand.memoryBytes > 0 && memory !== undefined && load.memoryBytes + demand.memoryBytes > memory)
    return "short of memory";
  return undefined;
}

function explain(total: number, refusals: ReadonlyMap<string, number>): string {
  if (total === 0) return "no robot fits: there are no robots in this namespace";
  const said = [...refusals]
    .sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1))
    .slice(0, 8)
    .map(([refusal, count]) => `${count} ${refusal}`);
  return `0/${total} robots fit: ${said.join(", ")}`;
}
