import type { DeepReadonly } from "@keelson/api-machinery";
import type { AssignedDevices, DeviceRequest, RobotDevice } from "../api/device.ts";
import type { Robot } from "../api/robot.ts";
import { violationOf } from "./constraint.ts";
import { hasName } from "./device-name.ts";

type Requests = readonly DeepReadonly<DeviceRequest>[];

/** Devices of a robot that its tasks use. */
export interface DeviceLoad {
  /** Ids of devices that tasks have, once for each task. */
  readonly used: readonly string[];
  /** Requests of tasks that have reserved room. */
  readonly reserved: readonly Requests[];
}

/** No devices. */
export const noDevices: DeviceLoad = { used: [], reserved: [] };

/** The devices of two loads. */
export function addDevices(a: DeviceLoad, b: DeviceLoad): DeviceLoad {
  if (b.used.length === 0 && b.reserved.length === 0) return a;
  return { used: [...a.used, ...b.used], reserved: [...a.reserved, ...b.reserved] };
}

/** Ids of assigned devices. */
export function idsOf(devices: AssignedDevices | undefined): readonly string[] {
  return (devices ?? []).flatMap(({ ids }) => ids);
}

/** The devices for a task, in the order of its requests, or why there are not enough. */
export type DeviceAssignment =
  | { readonly kind: "assigned"; readonly devices: AssignedDevices }
  /** The robot has too few that match, even if it is idle. */
  | { readonly kind: "missing"; readonly text: string }
  /** Others use them. */
  | {
      readonly kind: "short";
      readonly name: string;
      readonly requested: number;
      readonly available: number;
      readonly total: number;
    };

/**
 * Chooses the devices of a robot for a task. A task gets each device at most once, and a device has at most as many tasks as it has shares.
 *
 * **Guarantees**: if there is a choice that meets all requests, one is found. Devices with fewer tasks come first, then those that the robot
 * reports first.
 */
export function assignDevices(requests: Requests, robot: DeepReadonly<Robot>, load: DeviceLoad): DeviceAssignment {
  if (requests.length === 0) return { kind: "assigned", devices: [] };
  const devices = robot.status?.deviceInfo?.devices ?? [];
  const matching = requests.map((request) => devices.filter((device) => matches(request, device, robot)));
  const missing = requests.findIndex(({ count = 1 }, index) => (matching[index]?.length ?? 0) < count);
  const lacking = requests[missing];
  if (lacking !== undefined) return { kind: "missing", text: missingText(lacking, devices) };
  const uses = new Map<string, number>();
  for (const id of load.used) uses.set(id, (uses.get(id) ?? 0) + 1);
  for (const reserved of load.reserved) {
    const candidates = reserved.map((request) =>
      freeDevices(
        devices.filter((device) => matches(request, device, robot)),
        uses,
      ),
    );
    for (const id of matchRequests(reserved, candidates).flat()) uses.set(id, (uses.get(id) ?? 0) + 1);
  }
  const chosen = matchRequests(
    requests,
    matching.map((each) => freeDevices(each, uses)),
  );
  const short = requests.findIndex(({ count = 1 }, index) => (chosen[index]?.length ?? 0) < count);
  const request = requests[short];
  if (request !== undefined) {
    const { name, count = 1 } = request;
    return {
      kind: "short",
      name,
      requested: count,
      available: chosen[short]?.length ?? 0,
      total: matching[short]?.length ?? 0,
    };
  }
  const idsFor = (index: number): string[] => {
    const ids = new Set(chosen[index]);
    return (matching[index] ?? []).map(({ id }) => id).filter((id) => ids.has(id));
  };
  return { kind: "assigned", devices: requests.map(({ name }, index) => ({ name, ids: idsFor(index) })) };
}

function matches(
  { name, constraints = [] }: DeepReadonly<DeviceRequest>,
  device: DeepReadonly<RobotDevice>,
  robot: DeepReadonly<Robot>,
): boolean {
  return hasName(device.name, name) && constraints.every((constraint) => violationOf(constraint, robot, device) === undefined);
}

function missingText({ name, count = 1, constraints = [] }: DeepReadonly<DeviceRequest>, devices: DeepReadonly<RobotDevice[]>) {
  const named = devices.filter((device) => hasName(device.name, name)).length;
  if (named === 0) return `without the device ${name}`;
  const what = count === 1 ? `a device ${name}` : `${count} devices ${name}`;
  if (named < count || constraints.length === 0) return `without ${what}`;
  const texts = constraints.map(
    (each) => `${each.lTarget ?? each.ltarget} ${each.operand ?? "="} ${each.rTarget ?? each.rtarget}`,
  );
  return `without ${what} that ${count === 1 ? "meets" : "meet"} ${texts.join(" and ")}`;
}

/** Ids of the devices that have shares left, the least used first. */
function freeDevices(devices: DeepReadonly<RobotDevice[]>, uses: ReadonlyMap<string, number>): readonly string[] {
  const usesOf = (id: string): number => uses.get(id) ?? 0;
  return devices
    .filter(({ id, shares = 1 }) => usesOf(id) < shares)
    .map(({ id }) => id)
    .sort((a, b) => usesOf(a) - usesOf(b));
}

/** Chooses distinct devices for each request, as many as possible: a maximum matching by augmenting paths. */
function matchRequests(requests: Requests, candidates: readonly (readonly string[])[]): readonly (readonly string[])[] {
  /** Request that has a device. */
  const owners = new Map<string, number>();
  const assign = (request: number, seen: Set<string>): boolean => {
    for (const id of candidates[request] ?? []) {
      const owner = owners.get(id);
      if (owner === request || seen.has(id)) continue;
      seen.add(id);
      if (owner !== undefined && !assign(owner, seen)) continue;
      owners.set(id, request);
      return true;
    }
    return false;
  };
  for (const [request, { count = 1 }] of requests.entries()) {
    for (let unit = 0; unit < count; unit++) if (!assign(request, new Set())) break;
  }
  return candidates.map((ids, request) => ids.filter((id) => owners.get(id) === request));
}
