import type { DeepReadonly } from "@keelson/api-machinery";
import type { Robot } from "../api/robot.ts";
import { addDevices, type DeviceLoad } from "./devices.ts";
import { type Demand, explainRobots, type Load, noLoad } from "./placement.ts";
import { coresOf, type ResourceRequest } from "./resource-request.ts";

/** A task stops another one only if its priority is higher by at least this much, as in Nomad. */
export const minPriorityDifference = 10;

/** A task on a robot, as a preemption sees it. */
export interface Occupant extends ResourceRequest {
  readonly name: string;
  readonly uid: string;
  readonly attempt: number;
  readonly priority: number;
  readonly devices: DeviceLoad;
  /** `leaving`: it has been asked to stop, so its room will be free. */
  readonly kind: "fixed" | "preemptible" | "leaving";
}

/** A task that is stopped. */
export type Victim = Pick<Occupant, "name" | "uid" | "attempt" | "priority">;

/** Room that a task gets by stopping others. */
export interface Preemption {
  readonly robot: string;
  /** Empty if tasks that are leaving the robot make enough room. */
  readonly victims: readonly Victim[];
}

/** Input of {@link decidePreemption}. */
export interface PreemptionObservation {
  /** The task that finds no room. */
  readonly demand: Demand;
  readonly robots: readonly DeepReadonly<Robot>[];
  /** What uses a robot, apart from the task itself. */
  readonly occupantsOf: (robot: DeepReadonly<Robot>) => readonly Occupant[];
  /** How well a robot suits the task's preferences. */
  readonly scoreOf: (robot: DeepReadonly<Robot>) => number;
  /** The room that the task has reserved before. */
  readonly current?: { readonly robot: string; readonly tasks: readonly { readonly uid: string; readonly attempt: number }[] };
}

/**
 * Chooses the robot and the tasks that are stopped for a task that finds no room. Undefined if no robot would have enough.
 *
 * **Guarantees**: only preemptible occupants are stopped, and no more than necessary: the task does not fit if one of them stays. On each robot
 * those of higher priority stay if possible. The robot whose most important victim has the lowest priority is chosen, then the one with
 * the fewest victims, then the one that suits the task best. An earlier choice is kept while it is enough.
 */
export function decidePreemption(observed: PreemptionObservation): Preemption | undefined {
  const { robots, scoreOf, demand } = observed;
  const kept = keptPreemption(observed);
  if (kept !== undefined) return kept;
  let best: Candidate | undefined;
  for (const robot of robots) {
    const victims = victimsOn(observed, robot);
    if (victims === undefined) continue;
    const name = robot.metadata.name ?? "";
    const priorities = victims.map(({ priority }) => priority);
    const isAvoided = name === demand.avoided;
    const highest = Math.max(-1, ...priorities);
    const total = priorities.reduce((sum, priority) => sum + priority, 0);
    const candidate = { robot: name, victims, rank: [isAvoided ? 1 : 0, highest, victims.length, total, -scoreOf(robot)] };
    if (best === undefined || compare(candidate, best) < 0) best = candidate;
  }
  return best === undefined ? undefined : { robot: best.robot, victims: best.victims };
}

interface Candidate extends Preemption {
  /** Lower is better, the first number that differs decides. */
  readonly rank: readonly number[];
}

function compare(a: Candidate, b: Candidate): number {
  const difference = a.rank.map((value, index) => value - (b.rank[index] ?? 0)).find((value) => value !== 0);
  return difference ?? (a.robot < b.robot ? -1 : 1);
}

function keptPreemption({ current, demand, robots, occupantsOf }: PreemptionObservation): Preemption | undefined {
  const robot = robots.find(({ metadata }) => metadata.name === current?.robot);
  if (current === undefined || robot === undefined) return undefined;
  const isChosen = ({ uid, attempt }: Occupant): boolean =>
    current.tasks.some((task) => task.uid === uid && task.attempt === attempt);
  const occupants = occupantsOf(robot);
  const staying = occupants.filter((each) => each.kind !== "leaving" && !(each.kind === "preemptible" && isChosen(each)));
  if (!fits(demand, robot, staying)) return undefined;
  return { robot: current.robot, victims: occupants.filter(isChosen) };
}

/** The tasks to stop on a robot; undefined if that would not be enough. */
function victimsOn(
  { demand, occupantsOf }: PreemptionObservation,
  robot: DeepReadonly<Robot>,
): readonly Occupant[] | undefined {
  // Nothing can be done about other reasons than a shortage.
  if (!fits(demand, robot, [])) return undefined;
  const occupants = occupantsOf(robot);
  const fixed = occupants.filter(({ kind }) => kind === "fixed");
  const preemptible = occupants.filter(({ kind }) => kind === "preemptible");
  const willHaveRoom = preemptible.length > 0 || occupants.some(({ kind }) => kind === "leaving");
  if (!willHaveRoom || !fits(demand, robot, fixed)) return undefined;
  const sizeOf = shareOf(robot);
  const [a, b] = [1, -1].map((sign) =>
    victimsInOrder(demand, robot, fixed, [...preemptible].sort(byPriority((x, y) => sign * (sizeOf(x) - sizeOf(y))))),
  );
  return a === undefined || b === undefined || isSmaller(b, a, sizeOf) ? b : a;
}

const byPriority =
  (bySize: (a: Occupant, b: Occupant) => number) =>
  (a: Occupant, b: Occupant): number =>
    b.priority - a.priority || bySize(a, b) || (a.uid < b.uid ? -1 : 1);

/** Lets each task stay if the demand then still fits. */
function victimsInOrder(
  demand: Demand,
  robot: DeepReadonly<Robot>,
  fixed: readonly Occupant[],
  order: readonly Occupant[],
): readonly Occupant[] {
  const staying = [...fixed];
  return order.filter((each) => {
    if (!fits(demand, robot, [...staying, each])) return true;
    staying.push(each);
    return false;
  });
}

function isSmaller(a: readonly Occupant[], b: readonly Occupant[], sizeOf: (occupant: Occupant) => number): boolean {
  const highest = (victims: readonly Occupant[]): number => Math.max(-1, ...victims.map(({ priority }) => priority));
  const size = (victims: readonly Occupant[]): number => victims.reduce((sum, each) => sum + sizeOf(each), 0);
  return (highest(a) - highest(b) || a.length - b.length || size(a) - size(b)) < 0;
}

/** The part of a robot that a task uses. */
function shareOf({ status }: DeepReadonly<Robot>): (occupant: Occupant) => number {
  const { cpu, memory } = status?.deviceInfo ?? {};
  return (occupant) =>
    coresOf(occupant, cpu?.mhz) / (cpu?.logicalCores ?? 1) + occupant.memoryBytes / (memory?.total ?? 2 ** 32);
}

function fits(demand: Demand, robot: DeepReadonly<Robot>, occupants: readonly Occupant[]): boolean {
  const load = (): Load =>
    occupants.reduce(
      (sum, { cpu, cpuMhz, memoryBytes, diskBytes, devices }) => ({
        tasks: sum.tasks + 1,
        cpu: sum.cpu + cpu,
        cpuMhz: sum.cpuMhz + cpuMhz,
        memoryBytes: sum.memoryBytes + memoryBytes,
        diskBytes: sum.diskBytes + diskBytes,
        devices: addDevices(sum.devices, devices),
      }),
      noLoad,
    );
  return explainRobots(demand, [robot], load)[0] === undefined;
}
