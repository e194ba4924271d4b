import { isJsonObject } from "@keelson/api-machinery";
import { fields, invalid, isPlainPath, names } from "./policy-fields.ts";

/** Devices of a robot that its owner offers to tasks. */
export interface DevicePolicy {
  /** TYPE, VENDOR/TYPE or VENDOR/TYPE/MODEL. */
  readonly name: string;
  /** Paths below `/dev`. In the last part, `*` stands for any characters. */
  readonly paths: readonly string[];
  /** Paths of further devices, which every task with one of these devices gets. */
  readonly companions: readonly string[];
  /** Number of tasks that can have one of these devices at the same time. */
  readonly shares: number;
  /** In addition to what the system knows about a device. */
  readonly attributes: Readonly<Record<string, string>>;
}

const namePattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}(\/[A-Za-z0-9][A-Za-z0-9._-]{0,62}){0,2}$/;

/** Reads the `devices` field of a policy. **Errors**: `RobotsError` with the code `InvalidPolicy`, which names the field. */
export function readDevicePolicies(value: unknown): readonly DevicePolicy[] {
  if (!Array.isArray(value)) throw invalid("devices", value, "must be a list");
  return value.map((each: unknown, index) => readDevicePolicy(each, `devices[${index}]`));
}

function readDevicePolicy(value: unknown, field: string): DevicePolicy {
  const policy = fields(value, field, ["name", "paths", "companions", "shares", "attributes"]);
  const { name, shares = 1, attributes = {} } = policy;
  if (typeof name !== "string" || !namePattern.test(name)) {
    throw invalid(`${field}.name`, name, "must be TYPE, VENDOR/TYPE or VENDOR/TYPE/MODEL");
  }
  const paths = names(policy.paths, `${field}.paths`) ?? [];
  if (paths.length === 0) throw invalid(`${field}.paths`, policy.paths, "must list at least one path");
  for (const path of paths) {
    if (!isDevicePath(path) || path.slice(0, path.lastIndexOf("/")).includes("*"))
      throw invalid(`${field}.paths`, path, "must be a path below /dev, with * only in its last part");
  }
  const companions = names(policy.companions, `${field}.companions`) ?? [];
  for (const path of companions) {
    if (!isDevicePath(path) || path.includes("*"))
      throw invalid(`${field}.companions`, path, "must be a path below /dev, without *");
  }
  if (typeof shares !== "number" || !Number.isInteger(shares) || shares < 1 || shares > 1000) {
    throw invalid(`${field}.shares`, shares, "must be a whole number from 1 to 1000");
  }
  return { name, paths, companions, shares, attributes: readAttributes(attributes, `${field}.attributes`) };
}

function readAttributes(value: unknown, field: string): Readonly<Record<string, string>> {
  const isValid = isJsonObject(value) && Object.values(value).every((each) => typeof each === "string" && each.length <= 256);
  if (!isValid) throw invalid(field, value, "must map names to strings of at most 256 characters");
  return Object.fromEntries(Object.entries(value).map(([name, text]) => [name, String(text)]));
}

/** Whether a path is one of a device that the API can represent. */
const isDevicePath = (path: string): boolean =>
  /^\/dev\/[!-~]{1,250}$/.test(path) && isPlainPath(path) && !path.endsWith("/") && !path.includes("//");

/** Whether a path is one that the policy's patterns match. */
export function matchesPath({ paths }: Pick<DevicePolicy, "paths">, path: string): boolean {
  return isDevicePath(path) && paths.some((pattern) => matchesPattern(pattern, path));
}

function matchesPattern(pattern: string, path: string): boolean {
  const parts = pattern.split("*");
  if (parts.length === 1) return path === pattern;
  const text = parts.map((part) => part.replace(/[\\^$.|?+()[\]{}]/g, "\\$&")).join("[^/]*");
  return new RegExp(`^${text}$`).test(path);
}
