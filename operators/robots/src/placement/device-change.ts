import { type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import type { DeviceInfo } from "../api/device-info.ts";

/** Whether the machine changed: its hardware, system, disks, interfaces or devices. Utilisation is ignored. */
export function isOtherMachine(
  before: DeepReadonly<DeviceInfo> | undefined,
  after: DeepReadonly<DeviceInfo> | undefined,
): boolean {
  if (after === undefined) return false;
  return before === undefined || !jsonEquals(identityOf(before), identityOf(after));
}

function identityOf(info: DeepReadonly<DeviceInfo>): unknown {
  const { cpu, memory, disks, networkInterfaces } = info;
  return {
    hostname: info.hostname,
    platform: info.platform,
    cores: [cpu?.physicalCores, cpu?.logicalCores, cpu?.modelName, cpu?.vendor].map((value) => value ?? null),
    memory: memory?.total,
    disks: disks?.map(({ device, mountPoint, fsType, total }) => ({ device, mountPoint, fsType, total })),
    devices: info.devices,
    interfaces: networkInterfaces?.map(({ name, hardwareAddr, addresses }) => ({ name, hardwareAddr, addresses })),
  };
}

/** Whether the battery or the location changed. */
export function hasOtherState(
  before: DeepReadonly<DeviceInfo> | undefined,
  after: DeepReadonly<DeviceInfo> | undefined,
): boolean {
  const stateOf = (info: DeepReadonly<DeviceInfo> | undefined) => ({ battery: info?.battery, location: info?.location });
  return !jsonEquals(stateOf(before), stateOf(after));
}
