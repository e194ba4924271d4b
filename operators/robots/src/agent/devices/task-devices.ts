import { isJsonObject, type JsonObject } from "@keelson/api-machinery";
import { maxDevices } from "../../api/device.ts";
import { hasName } from "../../placement/device-name.ts";
import { type DevicePolicy, matchesPath } from "../policy/device-policy.ts";
import type { RobotPolicy } from "../policy/robot-policy.ts";
import { child, InvalidField, own, text } from "../tasks/task-fields.ts";
import { deviceNumber } from "./read-devices.ts";

/** The devices of a task for one of its requests. */
export interface TaskDevice {
  /** Name of the request. */
  readonly name: string;
  /** Paths. */
  readonly ids: readonly string[];
}

/**
 * The devices that the server assigned to a task. **Errors**: {@link InvalidField} if they are not what the task requests, or if the policy
 * does not offer them.
 */
export function taskDevices(spec: JsonObject, policy: Pick<RobotPolicy, "devices">): readonly TaskDevice[] {
  const requests = objects(own(child(spec, "resources"), "devices"), "spec.resources.devices");
  const assigned = objects(own(spec, "targetDevices"), "spec.targetDevices");
  const devices = requests.map((request, index): TaskDevice => {
    const name = text(request, "name", `spec.resources.devices[${index}]`) ?? "";
    const { count = 1 } = request;
    const device = assigned[index] ?? {};
    const { ids } = device;
    const isComplete = Array.isArray(ids) && ids.length === count && ids.every((id) => typeof id === "string");
    if (device.name !== name || !isComplete) {
      throw new InvalidField(`spec.targetDevices: the server assigned no ${String(count)} devices ${JSON.stringify(name)}`);
    }
    return { name, ids: ids.map(String) };
  });
  const ids = devices.flatMap((device) => device.ids);
  if (new Set(ids).size !== ids.length) throw new InvalidField("spec.targetDevices: a device is assigned twice");
  const problem = forbiddenDevice(policy, devices);
  if (problem !== undefined) throw new InvalidField(problem);
  return devices;
}

function objects(value: unknown, field: string): readonly JsonObject[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value) || value.length > maxDevices || !value.every(isJsonObject)) {
    throw new InvalidField(`${field} must be a list of at most ${maxDevices} objects`);
  }
  return value;
}

/** Why the policy does not offer devices to a task; undefined if it does. */
export function forbiddenDevice(
  { devices = [] }: Pick<RobotPolicy, "devices">,
  wanted: readonly TaskDevice[],
): string | undefined {
  for (const { name, ids } of wanted) {
    const id = ids.find((each) => policyOf(devices, name, each) === undefined);
    if (id !== undefined) return `spec.targetDevices: the robot's policy offers no device ${JSON.stringify(name)} at ${id}`;
  }
  return undefined;
}

/** Why devices of a task cannot be used now; undefined if they can. */
export function missingDevice(wanted: readonly TaskDevice[]): string | undefined {
  const missing = wanted.flatMap(({ ids }) => ids).find((id) => deviceNumber(id) === undefined);
  return missing === undefined ? undefined : `device ${missing} not found on the robot`;
}

/** The paths of the devices that a program gets: its own and their companions that are there. */
export function devicePaths({ devices = [] }: Pick<RobotPolicy, "devices">, wanted: readonly TaskDevice[]): readonly string[] {
  const companions = wanted.flatMap(({ name, ids }) => ids.flatMap((id) => policyOf(devices, name, id)?.companions ?? []));
  const present = companions.filter((path) => deviceNumber(path) !== undefined);
  return [...new Set([...wanted.flatMap(({ ids }) => ids), ...present])];
}

/** Number of tasks that can have a device at the same time. */
export function sharesOf({ devices = [] }: Pick<RobotPolicy, "devices">, name: string, id: string): number {
  return policyOf(devices, name, id)?.shares ?? 1;
}

function policyOf(devices: readonly DevicePolicy[], name: string, id: string): DevicePolicy | undefined {
  return devices.find((device) => hasName(device.name, name) && matchesPath(device, id));
}

/** `K8S4R_DEVICE_<NAME>` for every request: its paths, separated by spaces. */
export function deviceVariables(devices: readonly TaskDevice[]): Readonly<Record<string, string>> {
  const variables: Record<string, string> = {};
  for (const { name, ids } of devices) {
    const key = `K8S4R_DEVICE_${name.toUpperCase().replace(/[^A-Z0-9]/g, "_")}`;
    variables[key] = [...(variables[key] === undefined ? [] : [variables[key]]), ...ids].join(" ");
  }
  return variables;
}
