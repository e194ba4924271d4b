import { readdirSync, readFileSync, readlinkSync, realpathSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { maxDevices, type RobotDevice } from "../../api/device.ts";
import { type DevicePolicy, matchesPath } from "../policy/device-policy.ts";

/** Levels of the device tree above a device that are searched for its vendor. */
const maxLevels = 8;

/**
 * The devices that a policy offers and that are there, in the order of the policy. A device with several paths is listed once, under the
 * first. At most 64 are listed. `sys` is where sysfs is mounted.
 */
export function readDevices(policies: readonly DevicePolicy[], sys = "/sys"): RobotDevice[] {
  const seen = new Set<string>();
  const devices: RobotDevice[] = [];
  for (const policy of policies) {
    for (const id of policy.paths.flatMap((pattern) => pathsOf(policy, pattern))) {
      const number = deviceNumber(id);
      if (number === undefined || seen.has(number) || devices.length === maxDevices) continue;
      seen.add(number);
      const { name, shares } = policy;
      const attributes = { ...hardwareAttributes(join(sys, "dev", number)), ...policy.attributes };
      devices.push({ id, name, ...(shares > 1 && { shares }), ...(Object.keys(attributes).length > 0 && { attributes }) });
    }
  }
  return devices;
}

function pathsOf(policy: DevicePolicy, pattern: string): readonly string[] {
  if (!pattern.includes("*")) return [pattern];
  const folder = dirname(pattern);
  try {
    const paths = readdirSync(folder).map((name) => join(folder, name));
    const order = new Intl.Collator("en", { numeric: true });
    return paths.filter((path) => matchesPath({ ...policy, paths: [pattern] }, path)).sort(order.compare);
  } catch {
    return [];
  }
}

/** Type and number of the device at a path, as in `/sys/dev`: `char/188:0`. Undefined if there is none. */
export function deviceNumber(path: string): string | undefined {
  try {
    const stats = statSync(path);
    const type = stats.isCharacterDevice() ? "char" : stats.isBlockDevice() ? "block" : undefined;
    const { rdev } = stats;
    return type === undefined ? undefined : `${type}/${(rdev >>> 8) & 0xfff}:${(rdev & 0xff) | ((rdev >>> 12) & 0xfff00)}`;
  } catch {
    return undefined;
  }
}

/** Vendor, product, serial number and driver of a USB or PCI device, as far as the system knows them. */
function hardwareAttributes(path: string): Readonly<Record<string, string>> {
  let folder: string;
  try {
    folder = realpathSync(join(path, "device"));
  } catch {
    return {};
  }
  const driver = linkName(join(folder, "driver"));
  const found = { ...(driver !== undefined && { driver }) };
  for (let level = 0; level < maxLevels && basename(dirname(folder)) !== "sys"; level++, folder = dirname(folder)) {
    const read = (name: string): string | undefined => readText(join(folder, name));
    const [vendor, product] = [read("idVendor") ?? read("vendor"), read("idProduct") ?? read("device")];
    if (vendor === undefined || product === undefined) continue;
    const facts = { "vendor-id": hex(vendor), "product-id": hex(product), product: read("product"), serial: read("serial") };
    return { ...found, ...Object.fromEntries(Object.entries(facts).flatMap(([k, v]) => (v === undefined ? [] : [[k, v]]))) };
  }
  return found;
}

const hex = (text: string): string => text.replace(/^0x/, "");

function linkName(path: string): string | undefined {
  try {
    return basename(readlinkSync(path));
  } catch {
    return undefined;
  }
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8").trim().slice(0, 256);
  } catch {
    return undefined;
  }
}
