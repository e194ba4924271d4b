import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { isMountPoint, mountPointsBelow, parseMounts } from "./mount-points.ts";

test("reads mounts, and decodes white space and backslashes", () => {
  const mountinfo = String.raw`36 35 98:0 /of\040it /a\040b\011c\134d rw shared:1 - ext4 /dev/sda rw
37 36 0:30 / / rw - tmpfs tmpfs rw
`;
  expect(parseMounts(mountinfo)).toEqual([
    { device: "98:0", root: "/of it", point: String.raw`/a b${"\t"}c\d`, type: "ext4" },
    { device: "0:30", root: "/", point: "/", type: "tmpfs" },
  ]);
});

const canMount =
  process.platform === "linux" && process.getuid?.() === 0 && spawnSync("unshare", ["--mount", "true"]).status === 0;

describe.runIf(canMount)("mount points", () => {
  let base: string;
  let mounted: string;
  beforeEach(() => {
    base = realpathSync(mkdtempSync(join(tmpdir(), "mount-points-")));
    mkdirSync(join(base, "real directory"));
    symlinkSync("real directory", join(base, "link"));
    mounted = join(base, "real directory", "mounted");
    mkdirSync(mounted);
    execFileSync("mount", ["--bind", mounted, mounted]);
  });
  afterEach(() => {
    execFileSync("umount", ["--lazy", mounted]);
    rmSync(base, { recursive: true, force: true });
  });

  test("are found by a path with spaces and links", () => {
    expect([mounted, join(base, "link", "mounted")].map(isMountPoint)).toEqual([true, true]);
    expect([base, join(base, "link"), join(base, "none", "at all")].map(isMountPoint)).toEqual([false, false, false]);
    expect(mountPointsBelow(join(base, "link"))).toEqual([mounted]);
    expect(mountPointsBelow(join(base, "real"))).toEqual([]);
  });

  test("are below a directory only if they are not the directory itself", () => {
    expect(mountPointsBelow(mounted)).toEqual([]);
    expect(mountPointsBelow("/")).not.toContain("/");
  });

  test("are listed innermost first", () => {
    const inner = join(mounted, "inner");
    mkdirSync(inner);
    execFileSync("mount", ["--bind", inner, inner]);
    expect(mountPointsBelow(base)).toEqual([inner, mounted]);
    execFileSync("umount", [inner]);
  });
});
