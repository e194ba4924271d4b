import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { removeTree } from "./remove-tree.ts";

const createDir = (): string => mkdtempSync(join(tmpdir(), "remove-tree-"));

it("removes files and folders, and accepts that nothing exists", async () => {
  const dir = createDir();
  mkdirSync(join(dir, "folder"));
  writeFileSync(join(dir, "folder", "file"), "");
  await removeTree(dir);
  await removeTree(dir);
  expect(existsSync(dir)).toBe(false);
});

it("removes folders that are nested deeper than a path can be long", async () => {
  const dir = createDir();
  const nest = 'i=0; while [ $i -lt 40 ]; do mkdir "$1" && cd -P "$1" || exit 1; i=$((i + 1)); done';
  execFileSync("bash", ["-c", nest, "nest", "a".repeat(200)], { cwd: dir });
  await removeTree(dir);
  expect(existsSync(dir)).toBe(false);
});
