import { readFileSync, statfsSync, statSync } from "node:fs";
import { arch, cpus, freemem, hostname, networkInterfaces, platform, release, totalmem, uptime } from "node:os";
import { dirname } from "node:path";
import type { DeviceInfo } from "../api/device-info.ts";
import type { CpuMeter } from "./cpu-meter.ts";
import { readBattery } from "./devices/read-battery.ts";
import { readDevices } from "./devices/read-devices.ts";
import { readLocation } from "./devices/read-location.ts";
import type { RobotPolicy } from "./policy/robot-policy.ts";

const goNames: Readonly<Record<string, string>> = { x64: "amd64", ia32: "386", win32: "windows" };

function readText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

/** `ID` and `VERSION_ID` of os-release(5). */
function readDistribution(): {
  readonly platform?: string;
  readonly platformFamily?: string;
  readonly platformVersion?: string;
} {
  const text = readText("/etc/os-release");
  const field = (name: string): string | undefined => new RegExp(`^${name}="?([^"\\n]*)"?$`, "m").exec(text)?.[1];
  const [id, like, version] = [field("ID"), field("ID_LIKE"), field("VERSION_ID")];
  return {
    ...(id !== undefined && { platform: id }),
    ...((like ?? id) !== undefined && { platformFamily: like ?? id }),
    ...(version !== undefined && { platformVersion: version }),
  };
}

/** The kernel's boot ID, which changes when the machine reboots. Empty if the system has none. */
export function readBootId(): string {
  return readText("/proc/sys/kernel/random/boot_id").trim();
}

/** Milliseconds since the kernel booted, including time in suspension. Wall clock changes do not affect it. */
export function readBootMs(): number {
  const seconds = Number.parseFloat(readText("/proc/uptime"));
  return Number.isNaN(seconds) ? performance.now() : seconds * 1000;
}

/** The maximum clock rate in MHz. The current one, which os.cpus() reports, varies with the load. */
function readMhz(current: number): number {
  const maxKhz = Number(readText("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"));
  return maxKhz > 0 ? Math.round(maxKhz / 1000) : current;
}

/** What the robot's policy says about its devices and location, and where its tasks are. */
type DeviceSettings = Pick<RobotPolicy, "devices" | "locationFile"> & {
  /** Directory of the tasks, whose file system is reported. */
  readonly workDir?: string;
  /** Measures the use of the processors. Default: it is not reported. */
  readonly cpuMeter?: CpuMeter;
};

/** The file system of a directory. */
function readDisk(folder: string): NonNullable<DeviceInfo["disks"]> {
  try {
    const { bsize, blocks, bfree, bavail } = statfsSync(folder);
    const [total, free] = [steadySize(blocks * bsize), bavail * bsize];
    return [{ mountPoint: mountPointOf(folder), total, free, used: (blocks - bfree) * bsize }];
  } catch {
    return [];
  }
}

/**
 * A size rounded down to about 3 percent. The size of a file system that shares its space with others, such as one of ZFS, changes with theirs, and a
 * robot whose disks change is recorded immediately.
 */
export function steadySize(bytes: number): number {
  const step = 2 ** Math.max(Math.floor(Math.log2(Math.max(bytes, 1))) - 5, 0);
  return bytes - (bytes % step);
}

function mountPointOf(folder: string): string {
  const { dev } = statSync(folder);
  const parent = dirname(folder);
  return parent === folder || statSync(parent).dev !== dev ? folder : mountPointOf(parent);
}

/** Reads what the machine reports without waiting. The original agent blocks 2 s for its CPU usage. */
export function readDeviceInfo(now: number, { devices, locationFile, workDir, cpuMeter }: DeviceSettings = {}): DeviceInfo {
  const battery = readBattery();
  const location = locationFile === undefined ? undefined : readLocation(locationFile);
  const cores = cpus();
  const first = cores[0];
  const memory = readText("/proc/meminfo");
  const kilobytes = (name: string): number | undefined => {
    const found = new RegExp(`^${name}:\\s+(\\d+) kB$`, "m").exec(memory)?.[1];
    return found === undefined ? undefined : Number(found) * 1024;
  };
  const total = totalmem();
  const available = kilobytes("MemAvailable") ?? freemem();
  const os = platform();
  return {
    hostname: hostname(),
    platform: {
      os: goNames[os] ?? os,
      arch: goNames[arch()] ?? arch(),
      ...readDistribution(),
      kernelVersion: release(),
    },
    cpu: {
      logicalCores: cores.length,
      ...cpuMeter?.read(cores),
      ...(first !== undefined && { modelName: first.model.trim(), mhz: readMhz(first.speed) }),
    },
    memory: {
      total,
      available,
      used: total - available,
      free: kilobytes("MemFree") ?? freemem(),
      usagePercent: Math.round(((total - available) / total) * 1000) / 10,
    },
    ...(workDir !== undefined && { disks: readDisk(workDir) }),
    networkInterfaces: Object.entries(networkInterfaces())
      .filter(([, addresses]) => addresses?.some((address) => !address.internal) === true)
      .map(([name, addresses = []]) => ({
        name,
        hardwareAddr: addresses[0]?.mac ?? "",
        addresses: addresses.map((address) => address.cidr ?? address.address),
      })),
    ...(devices !== undefined && { devices: readDevices(devices) }),
    ...(battery !== undefined && { battery }),
    ...(location !== undefined && { location }),
    bootTime: Math.round(now / 1000 - uptime()),
    uptime: Math.round(uptime()),
    lastUpdated: new Date(now).toISOString(),
  };
}
