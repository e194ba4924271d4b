import type { DeepReadonly } from "@keelson/api-machinery";
import { isQuantity, quantityToBytes, quantityToMillis } from "@keelson/api-machinery/quantity";
import type { Constraint } from "../api/constraint.ts";
import type { Robot } from "../api/robot.ts";
import type { TaskResources } from "../api/task-resources.ts";
import { violationOf } from "./constraint.ts";

/** Resources that a robot's tasks use. */
export interface Load {
  readonly tasks: number;
  /** Cores. */
  readonly cpu: number;
  readonly memoryBytes: number;
}

/** A task's requirements on its robot. */
export interface Demand {
  readonly selector: Readonly<Record<string, string>>;
  readonly constraints: readonly DeepReadonly<Constraint>[];
  readonly cpu: number;
  readonly memoryBytes: number;
  /** Name of the only robot that may run the task. */
  readonly pinned?: string;
}

/** The chosen robot, or why no robot fits. */
export type Placement =
  | { readonly kind: "placed"; readonly robot: DeepReadonly<Robot> }
  | { readonly kind: "none"; readonly message: string };

/** The load of an idle robot. */
export const noLoad: Load = { tasks: 0, cpu: 0, memoryBytes: 0 };

/** Requested cores and bytes. A malformed quantity requests nothing. */
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
 * Chooses the robot for a task. Candidates are Online, match the selector, meet every constraint and have the resources left.
 * The one with the fewest tasks wins, then the first by name, so that copies of a group spread over the robots.
 *
 * A robot that does not report its cores or memory counts as having enough of them.
 */
export function decidePlacement(
  demand: Demand,
  robots: readonly DeepReadonly<Robot>[],
  loadOf: (robot: string) => Load,
): Placement {
  const rejections = new Map<string, number>();
  let best: { readonly robot: DeepReadonly<Robot>; readonly tasks: number } | undefined;
  for (const robot of robots) {
    const load = loadOf(robot.metadata.name ?? "");
    const rejection = rejectionOf(demand, robot, load);
    if (rejection !== undefined) {
      rejections.set(rejection, (rejections.get(rejection) ?? 0) + 1);
    } else if (
      best === undefined ||
      load.tasks < best.tasks ||
      (load.tasks === best.tasks && (robot.metadata.name ?? "") < (best.robot.metadata.name ?? ""))
    ) {
      best = { robot, tasks: load.tasks };
    }
  }
  if (best) return { kind: "placed", robot: best.robot };
  return { kind: "none", message: explain(robots.length, rejections) };
}

/** The first filter that rejects the robot, as text that follows a count. */
function rejectionOf(demand: Demand, robot: DeepReadonly<Robot>, load: Load): string | undefined {
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
  // Sums of fractions such as 0.1 are slightly off whole numbers.
  if (demand.cpu > 0 && cores !== undefined && load.cpu + demand.cpu > cores + 1e-9) return "short of cpu";
  const memory = robot.status?.deviceInfo?.memory?.total;
  if (demand.memoryBytes > 0 && memory !== undefined && load.memoryBytes + demand.memoryBytes > memory)
    return "short of memory";
  return undefined;
}

function explain(total: number, rejections: ReadonlyMap<string, number>): string {
  if (total === 0) return "no robot fits: there are no robots in this namespace";
  const reasons = [...rejections]
    .sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1))
    .slice(0, 8)
    .map(([rejection, count]) => `${count} ${rejection}`);
  return `0/${total} robots fit: ${reasons.join(", ")}`;
}
