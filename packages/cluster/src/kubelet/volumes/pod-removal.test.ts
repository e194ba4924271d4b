import { execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { writeAtomicFolder } from "./atomic-folder.ts";
import { removePodFolder } from "./memory-volumes.ts";

/** Nests directories as a program can: their path is longer than any path may be. */
function nest(cwd: string): void {
  const script = 'i=0; while [ $i -lt 40 ]; do mkdir "$1" && cd -P "$1" || exit 1; i=$((i + 1)); done';
  execFileSync("bash", ["-c", script, "nest", "a".repeat(200)], { cwd });
}

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "pod-removal-"));
});

afterEach(() => execFileSync("rm", ["-rf", folder]));

test("a Pod's directory is removed with directories that are nested beyond PATH_MAX in its volumes and work directories", async () => {
  for (const path of ["volumes/data", "work/main"]) {
    mkdirSync(join(folder, path), { recursive: true });
    nest(join(folder, path));
  }
  await removePodFolder(folder);
  expect(existsSync(folder)).toBe(false);
});

const canMount =
  process.platform === "linux" && process.getuid?.() === 0 && spawnSync("unshare", ["--mount", "true"]).status === 0;

test.runIf(canMount)("a Pod's directory is removed with what is mounted below it and on it", async () => {
  const data = join(folder, "data");
  for (const path of [folder, folder, data]) {
    mkdirSync(path, { recursive: true });
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=64k", "tmpfs", path]);
  }
  try {
    await removePodFolder(folder);
    expect(existsSync(folder)).toBe(false);
  } finally {
    for (const path of [data, folder, folder]) spawnSync("umount", ["--lazy", path]);
  }
});

test.runIf(canMount)(
  "the memory of a removed Pod is freed although another Pod's namespace has copies of its mounts",
  async () => {
    const data = join(folder, "data");
    mkdirSync(data);
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=64k", "tmpfs", data]);
    const command = ["--mount", "--propagation", "private", "--", "sh", "-c", "echo ready; exec sleep 600"];
    const other = spawn("unshare", command, { stdio: ["ignore", "pipe", "inherit"] });
    try {
      await once(other.stdout, "data");
      const mounts = (): string => readFileSync(`/proc/${other.pid}/mountinfo`, "utf8");
      expect(mounts()).toContain(data);
      await removePodFolder(folder);
      expect(mounts()).not.toContain(data);
    } finally {
      other.kill("SIGKILL");
      await once(other, "close");
      spawnSync("umount", ["--lazy", data]);
    }
  },
);

test("a volume is updated although a program has nested directories beyond PATH_MAX in it", async () => {
  const files = (content: string) => new Map([["key", { content, mode: 0o644 }]]);
  await writeAtomicFolder(folder, files("one"), "1");
  mkdirSync(join(folder, "stranger"));
  nest(join(folder, "stranger"));
  await writeAtomicFolder(folder, files("two"), "2");
  expect(readdirSync(folder).sort()).toEqual(["..2", "..data", "key"]);
});
