import { execFileSync } from "node:child_process";
import { closeSync, mkdtempSync, openSync, readSync, rmSync } from "node:fs";
import { join } from "node:path";

/** Creates a device that reads like `/dev/zero`, or like `/dev/full`, which reads the same. Throws if this process may not create devices. */
export function createZeroDevice(path: string, like: "zero" | "full" = "zero"): void {
  execFileSync("mknod", ["-m", "666", path, "c", "1", like === "zero" ? "5" : "7"], { stdio: "pipe" });
}

/** Whether this process may create devices in /dev and read them. */
export function canCreateDevices(): boolean {
  let folder: string | undefined;
  try {
    folder = mkdtempSync("/dev/keelson-");
    createZeroDevice(join(folder, "zero"));
    const file = openSync(join(folder, "zero"), "r");
    const length = readSync(file, Buffer.alloc(1));
    closeSync(file);
    return length === 1;
  } catch {
    return false;
  } finally {
    if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
  }
}
