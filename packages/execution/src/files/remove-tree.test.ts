import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished, vi } from "vitest";
import { removeTree } from "./remove-tree.ts";

const createDir = (): string => mkdtempSync(join(tmpdir(), "remove-tree-"));

it("removes files and directories, and accepts that nothing exists", async () => {
  const dir = createDir();
  mkdirSync(join(dir, "folder"));
  writeFileSync(join(dir, "folder", "file"), "");
  await removeTree(dir);
  await removeTree(dir);
  expect(existsSync(dir)).toBe(false);
});

it("removes directories that are nested deeper than a path can be long", async () => {
  const dir = createDir();
  const nest = 'i=0; while [ $i -lt 40 ]; do mkdir "$1" && cd -P "$1" || exit 1; i=$((i + 1)); done';
  execFileSync("bash", ["-c", nest, "nest", "a".repeat(200)], { cwd: dir });
  await removeTree(dir);
  expect(existsSync(dir)).toBe(false);
});

it("leaves many files to rm(1), whose memory and time are not those of this process", async () => {
  const [dir, bin] = [createDir(), createDir()];
  const called = join(bin, "called");
  writeFileSync(join(bin, "rm"), `#!/bin/sh\necho "$@" > ${called}\nPATH=/usr/bin:/bin exec rm "$@"\n`, { mode: 0o755 });
  vi.stubEnv("PATH", `${bin}:${process.env["PATH"]}`);
  onTestFinished(() => {
    vi.unstubAllEnvs();
    rmSync(bin, { recursive: true });
  });
  const fill = (count: number): void => {
    mkdirSync(join(dir, "folder"), { recursive: true });
    for (let index = 0; index < count; index++) writeFileSync(join(dir, "folder", String(index)), "");
  };
  fill(100);
  await removeTree(dir);
  expect([existsSync(dir), existsSync(called)]).toEqual([false, false]);
  fill(600);
  await removeTree(dir);
  expect([existsSync(dir), existsSync(called)]).toEqual([false, true]);
});
