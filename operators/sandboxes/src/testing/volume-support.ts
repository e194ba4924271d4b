import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Whether volumes can be mounted here: as root, with loop devices and the tools of ext4. */
export function canMountVolumes(): boolean {
  if (process.getuid?.() !== 0) return false;
  const dir = mkdtempSync(join(tmpdir(), "volume-support-"));
  const image = join(dir, "image");
  try {
    writeFileSync(image, "");
    truncateSync(image, 16 << 20);
    execFileSync("mkfs.ext4", ["-q", "-F", image], { stdio: "ignore" });
    // Unmounted when its namespace ends.
    const script = 'mount -o loop "$1" /mnt';
    execFileSync("unshare", ["--mount", "--", "/bin/sh", "-c", script, "volume-support", image], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}
