import { initTasksFeature } from "../protocol/messages.ts";
import type { DeepReadonly } from "@keelson/api-machinery";
import type { Affinity, Constraint } from "../api/constraint.ts";
import type { AssignedDevices, DeviceRequest } from "../api/device.ts";
import type { Robot } from "../api/robot.ts";
import type { Spread } from "../api/spread.ts";
import { affinityScore } from "./affinity.ts";
import { violationOf } from "./constraint.ts";
import { assignDevices, type DeviceLoad, noDevices } from "./devices.ts";
import { type Copies, onlyCopy, spreadScorer } from "./spread.ts";
import { coresOf, formatBytes, formatCores, type ResourceRequest, diskOf } from "./resource-request.ts";

/** Resources that a robot's tasks use. */
export interface Load extends ResourceRequest {
  readonly tasks: number;
  readonly devices: DeviceLoad;
}

/** A task's requirements on its robot, apart from resources that other tasks may use. */
export interface Requirements {
  /** Whether the robot's agent must run init tasks. Default: false. */
  readonly hasInitTasks?: boolean;
  readonly selector: Readonly<Record<string, string>>;
  readonly constraints: readonly DeepReadonly<Constraint>[];
  readonly driver?: string;
  /** Default: none. */
  readonly devices?: readonly DeepReadonly<DeviceRequest>[];
}

/** A task's requirements on its robot. */
export interface Demand extends Requirements, ResourceRequest {
  /** Name of the only robot that may run the task. */
  readonly pinned?: string;
  /** Name of the robot that the task was moved from. It is chosen only if no other robot fits. */
  readonly avoided?: string;
  /** Preferences. Default: none. */
  readonly affinities?: readonly DeepReadonly<Affinity>[];
  /** How the copies of the task spread. Default: none. */
  readonly spreads?: readonly DeepReadonly<Spread>[];
  /** Name of the robot that is chosen if it fits, unless it is the avoided one. */
  readonly preferred?: string;
}

/** The chosen robot, or why no robot fits. */
export type Placement =
  | { readonly kind: "placed"; readonly robot: DeepReadonly<Robot>; readonly devices: AssignedDevices }
  | { readonly kind: "none"; readonly message: string };

/** The load of an idle robot. */
export const noLoad: Load = { tasks: 0, cpu: 0, cpuMhz: 0, memoryBytes: 0, diskBytes: 0, devices: noDevices };

/** Why a robot does not fit. */
interface Rejection {
  /** Text that follows a count. */
  readonly text: string;
  /** For a resource: the requested and available amounts. */
  readonly shortage?: {
    readonly requested: number;
    readonly available: number;
    readonly total: number;
    readonly format: (amount: number) => string;
  };
}

/**
 * Chooses the robot for a task. Candidates are Online, not cordoned, match the selector, meet every constraint and have the resources and devices left.
 * The one that suits the affinities and spreads best wins, then the one with the fewest tasks, then the first by name, so that copies of a group spread
 * over the robots. A robot that the task was moved from comes last. The robot of a task before its update comes first.
 *
 * A robot that does not report its cores, memory, disk or drivers counts as having them; one that does not report a device has none.
 */
export function decidePlacement(
  demand: Demand,
  robots: readonly DeepReadonly<Robot>[],
  loadOf: (robot: string) => Load,
  copies: Copies = onlyCopy,
): Placement {
  const scoreOf = preferenceScorer(demand, robots, copies);
  const rejections: Rejection[] = [];
  let best: Candidate | undefined;
  for (const robot of robots) {
    const text = mismatchOf(demand, robot);
    // The load is expensive to determine.
    const load = text === undefined ? loadOf(robot.metadata.name ?? "") : noLoad;
    const rejection = text === undefined ? shortageOf(demand, robot, load) : { text };
    if (rejection !== undefined) {
      rejections.push(rejection);
    } else {
      const { name } = robot.metadata;
      const candidate = {
        robot,
        score: scoreOf(robot),
        load,
        isAvoided: name === demand.avoided,
        isPreferred: name === demand.preferred,
      };
      if (best === undefined || isBetter(candidate, best)) best = candidate;
    }
  }
  if (best) {
    const assignment = assignDevices(demand.devices ?? [], best.robot, best.load.devices);
    return { kind: "placed", robot: best.robot, devices: assignment.kind === "assigned" ? assignment.devices : [] };
  }
  return { kind: "none", message: explain(robots.length, rejections) };
}

/** Returns a function that scores how well a robot suits the task's affinities and spreads: the sum of both. */
export function preferenceScorer(
  { affinities = [], spreads = [] }: Demand,
  robots: readonly DeepReadonly<Robot>[],
  copies: Copies,
): (robot: DeepReadonly<Robot>) => number {
  const spreadScore = spreadScorer(spreads, robots, copies);
  return (robot) => affinityScore(affinities, robot) + spreadScore(robot);
}

interface Candidate {
  readonly robot: DeepReadonly<Robot>;
  readonly score: number;
  readonly load: Load;
  readonly isAvoided: boolean;
  readonly isPreferred: boolean;
}

function isBetter(a: Candidate, b: Candidate): boolean {
  if (a.isAvoided !== b.isAvoided) return b.isAvoided;
  if (a.isPreferred !== b.isPreferred) return a.isPreferred;
  if (a.score !== b.score) return a.score > b.score;
  if (a.load.tasks !== b.load.tasks) return a.load.tasks < b.load.tasks;
  return (a.robot.metadata.name ?? "") < (b.robot.metadata.name ?? "");
}

/** Why each robot does not fit a task; undefined if it fits. In the order of `robots`. */
export function explainRobots(
  demand: Demand,
  robots: readonly DeepReadonly<Robot>[],
  loadOf: (robot: string) => Load,
): readonly (string | undefined)[] {
  return robots.map((robot) => {
    const text = mismatchOf(demand, robot);
    const rejection = text === undefined ? shortageOf(demand, robot, loadOf(robot.metadata.name ?? "")) : { text };
    return rejection === undefined ? undefined : `${rejection.text}${describeShortage([rejection])}`;
  });
}

/** Whether a robot is approved and meets the requirements, whether or not it is online and has resources left. */
export function isEligible(requirements: Requirements, robot: DeepReadonly<Robot>): boolean {
  if (robot.metadata.deletionTimestamp !== undefined || (robot.status?.phase ?? "Pending") === "Pending") return false;
  return selectorMismatch(requirements, robot) === undefined && requirementMismatch(requirements, robot) === undefined;
}

/** The first filter that rejects the robot, whatever its load. */
function mismatchOf(demand: Demand, robot: DeepReadonly<Robot>): string | undefined {
  if (demand.pinned !== undefined && robot.metadata.name !== demand.pinned) return `not the chosen robot ${demand.pinned}`;
  if (robot.metadata.deletionTimestamp !== undefined) return "being deleted";
  return selectorMismatch(demand, robot) ?? phaseMismatch(robot) ?? requirementMismatch(demand, robot);
}

function selectorMismatch({ selector }: Requirements, { spec: { labels } }: DeepReadonly<Robot>): string | undefined {
  const missing = Object.entries(selector).filter(
    ([key, value]) => labels === undefined || !Object.hasOwn(labels, key) || labels[key] !== value,
  );
  return missing.length === 0
    ? undefined
    : `not matching robotSelector ${missing.map(([key, value]) => `${key}=${value}`).join(",")}`;
}

function phaseMismatch({ spec, status }: DeepReadonly<Robot>): string | undefined {
  const phase = status?.phase ?? "Pending";
  if (phase !== "Online") return phase === "Pending" ? "pending approval" : phase.toLowerCase();
  return spec.unschedulable === true ? "cordoned" : undefined;
}

function requirementMismatch(
  { constraints, driver, devices = [], hasInitTasks = false }: Requirements,
  robot: DeepReadonly<Robot>,
): string | undefined {
  for (const constraint of constraints) {
    const violation = violationOf(constraint, robot);
    if (violation !== undefined) return `not meeting the constraint ${violation}`;
  }
  const drivers = robot.status?.drivers;
  if (driver !== undefined && drivers !== undefined && !drivers.includes(driver)) return `without the driver ${driver}`;
  if (hasInitTasks && robot.status?.agentFeatures?.includes(initTasksFeature) !== true)
    return "whose agent does not run init tasks";
  const assignment = assignDevices(devices, robot, noDevices);
  if (assignment.kind === "missing") return assignment.text;
  // Its requests compete for the same devices.
  return assignment.kind === "short" ? `without enough devices ${assignment.name}` : undefined;
}

function shortageOf(demand: Demand, robot: DeepReadonly<Robot>, load: Load): Rejection | undefined {
  const { cpu, memory } = robot.status?.deviceInfo ?? {};
  const requestedCores = coresOf(demand, cpu?.mhz);
  const totalCores = cpu?.logicalCores;
  if (requestedCores > 0 && totalCores !== undefined) {
    const available = totalCores - coresOf(load, cpu?.mhz);
    // Sums of fractions such as 0.1 are slightly off whole numbers.
    if (requestedCores > available + 1e-9) {
      const shortage = { requested: requestedCores, available, total: totalCores, format: formatCores };
      return { text: "short of cpu", shortage };
    }
  }
  if (demand.memoryBytes > 0 && memory?.total !== undefined) {
    const available = memory.total - load.memoryBytes;
    if (demand.memoryBytes > available) {
      const shortage = { requested: demand.memoryBytes, available, total: memory.total, format: formatBytes };
      return { text: "short of memory", shortage };
    }
  }
  const disk = diskOf(robot);
  if (demand.diskBytes > 0 && disk !== undefined && demand.diskBytes > disk - load.diskBytes) {
    const available = disk - load.diskBytes;
    return { text: "short of disk", shortage: { requested: demand.diskBytes, available, total: disk, format: formatBytes } };
  }
  const devices = assignDevices(demand.devices ?? [], robot, load.devices);
  if (devices.kind !== "short") return undefined;
  return { text: `short of the device ${devices.name}`, shortage: { ...devices, format: String } };
}

function explain(total: number, rejections: readonly Rejection[]): string {
  if (total === 0) return "no robot fits: there are no robots in this namespace";
  const byText = new Map<string, Rejection[]>();
  for (const rejection of rejections) {
    const same = byText.get(rejection.text);
    if (same === undefined) byText.set(rejection.text, [rejection]);
    else same.push(rejection);
  }
  const reasons = [...byText]
    .sort(([a, m], [b, n]) => n.length - m.length || (a < b ? -1 : 1))
    .slice(0, 8)
    .map(([text, same]) => `${same.length} ${text}${describeShortage(same)}`);
  return `0/${total} robots fit: ${reasons.join(", ")}`;
}

/** Names the requested amount and what the robot with the most room has. */
function describeShortage(rejections: readonly Rejection[]): string {
  const shortages = rejections.flatMap(({ shortage }) => (shortage === undefined ? [] : [shortage]));
  const best = shortages.reduce<(typeof shortages)[number] | undefined>(
    (most, each) => (most === undefined || each.available > most.available ? each : most),
    undefined,
  );
  if (best === undefined) return "";
  const { requested, available, total, format } = best;
  const most = rejections.length > 1 ? "at most " : "";
  return ` (requested ${format(requested)}, available ${most}${format(Math.max(available, 0))} of ${format(total)})`;
}
