import type { DeepReadonly } from "@keelson/api-machinery";
import type { AssignedDevices } from "../api/device.ts";
import { agentFinalizer } from "../api/names.ts";
import type { Task } from "../api/task.ts";
import { addDevices, type DeviceLoad, idsOf, noDevices } from "./devices.ts";
import { type Load, noLoad } from "./placement.ts";
import { parseResourceRequest } from "./resource-request.ts";

/**
 * How a Task uses a robot.
 *
 * - `bound`: the robot runs it, or is about to.
 * - `displaced`: the Task has left the robot, but its program may still be running there.
 * - `reserved`: it waits for room that tasks of lower priority are giving up.
 */
export interface RobotUse {
  readonly task: DeepReadonly<Task>;
  readonly kind: "bound" | "displaced" | "reserved";
  /** Devices of a Task that is being bound. Default: those that it has recorded. */
  readonly devices?: AssignedDevices;
}

/** Priority of a Task that names none. */
const defaultPriority = 50;

/** Priority of a Task, from 0 to 100. */
export function priorityOf({ spec }: DeepReadonly<Task>): number {
  return spec.priority ?? defaultPriority;
}

/** How a Task uses a robot; undefined if it does not. */
export function useOf(task: DeepReadonly<Task>, robot: string): RobotUse["kind"] | undefined {
  const { spec, status, metadata } = task;
  if (spec.targetRobot === robot && isBound(task)) return "bound";
  if (status?.displaced?.robot === robot) return "displaced";
  return isWaiting(task) && metadata.deletionTimestamp === undefined && status?.preemption?.robot === robot
    ? "reserved"
    : undefined;
}

/** Whether a Task waits for a robot. */
export function isWaiting({ status }: Pick<DeepReadonly<Task>, "status">): boolean {
  return (status?.state || "pending") === "pending";
}

/** Whether a Task has the robot that it names. A Task that is pinned to a robot does not have it before it is placed. */
export function isBound({ spec, status, metadata }: DeepReadonly<Task>): boolean {
  const state = status?.state;
  if ((spec.targetRobot ?? "") === "" || state === "completed" || state === "failed") return false;
  if (!isWaiting({ status })) return true;
  // A task that was moved names its last robot until it has another one.
  if (status?.movedFrom === spec.targetRobot) return false;
  const isPlanned = metadata.uid === undefined;
  return isPlanned || status?.attempt !== undefined || metadata.finalizers?.includes(agentFinalizer) === true;
}

/** The uses of a robot by these Tasks. */
export function usesAmong(tasks: readonly DeepReadonly<Task>[], robot: string): readonly RobotUse[] {
  return tasks.flatMap((task) => {
    const kind = useOf(task, robot);
    return kind === undefined ? [] : [{ task, kind }];
  });
}

/** Load of a robot that a task of this Task's priority sees. Room that is reserved counts unless the task goes first. */
export function loadFor(task: DeepReadonly<Task>, uses: readonly RobotUse[]): Load {
  return uses.reduce((load, use) => (countsFor(task, use) ? add(load, use) : load), noLoad);
}

/** Load of a robot, without reservations. */
export function loadOf(uses: readonly RobotUse[]): Load {
  return uses.reduce((load, use) => (use.kind === "reserved" ? load : add(load, use)), noLoad);
}

/** Whether a use of a robot leaves less room for a task. */
export function countsFor(task: DeepReadonly<Task>, { task: other, kind }: RobotUse): boolean {
  if (kind !== "reserved") return true;
  const difference = priorityOf(other) - priorityOf(task);
  if (difference !== 0) return difference > 0;
  // Of two reservations with the same priority, the older one goes first.
  const bothReserve = task.status?.preemption?.robot === other.status?.preemption?.robot;
  return !bothReserve || !isOlder(task, other);
}

function isOlder(task: DeepReadonly<Task>, other: DeepReadonly<Task>): boolean {
  const [created, otherCreated] = [task.metadata.creationTimestamp ?? "", other.metadata.creationTimestamp ?? ""];
  return created === otherCreated ? (task.metadata.uid ?? "") < (other.metadata.uid ?? "") : created < otherCreated;
}

/** The devices that a use of a robot takes. */
export function devicesOf({ task: { spec, status }, kind, devices }: RobotUse): DeviceLoad {
  switch (kind) {
    case "bound":
      return { used: idsOf(devices ?? spec.targetDevices), reserved: [] };
    case "displaced":
      return { used: idsOf(status?.displaced?.devices), reserved: [] };
    case "reserved":
      return spec.resources?.devices === undefined ? noDevices : { used: [], reserved: [spec.resources.devices] };
  }
}

/** A load with one more use. */
function add(load: Load, use: RobotUse): Load {
  const { cpu, cpuMhz, memoryBytes, diskBytes } = parseResourceRequest(use.task.spec.resources);
  return {
    tasks: load.tasks + 1,
    cpu: load.cpu + cpu,
    cpuMhz: load.cpuMhz + cpuMhz,
    memoryBytes: load.memoryBytes + memoryBytes,
    diskBytes: load.diskBytes + diskBytes,
    devices: addDevices(load.devices, devicesOf(use)),
  };
}
