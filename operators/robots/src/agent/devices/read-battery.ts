import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { DeviceInfo } from "../../api/device-info.ts";

/** The battery of the robot, with several the one with the lowest charge; undefined without one. `sys` is where sysfs is mounted. */
export function readBattery(sys = "/sys"): DeviceInfo["battery"] {
  const folder = join(sys, "class/power_supply");
  let names: readonly string[];
  try {
    names = readdirSync(folder);
  } catch {
    return undefined;
  }
  const batteries = names.flatMap((name) => {
    const read = (file: string): string => readText(join(folder, name, file));
    // Reading the charge of a peripheral, such as a gamepad, queries it, which may take seconds.
    if (read("type") !== "Battery" || read("scope") === "Device") return [];
    const percent = Number(read("capacity") || Number.NaN);
    if (!Number.isFinite(percent)) return [];
    return [{ percent, state: read("status").toLowerCase() || "unknown" }];
  });
  return batteries.sort((a, b) => a.percent - b.percent)[0];
}

function readText(path: string): string {
  try {
    return readFileSync(path, "utf8").trim();
  } catch {
    return "";
  }
}
