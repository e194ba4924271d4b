import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  constants,
  fstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { openBeneath } from "./open-beneath.ts";

let base: string;
let root: string;

beforeEach(() => {
  base = realpathSync(mkdtempSync(join(tmpdir(), "keelson-beneath-")));
  root = join(base, "root");
  mkdirSync(join(root, "a", "b"), { recursive: true });
  writeFileSync(join(root, "a", "b", "file"), "inside");
  mkdirSync(join(base, "outside", "b"), { recursive: true });
  writeFileSync(join(base, "outside", "b", "file"), "secret");
});

afterEach(() => rmSync(base, { recursive: true, force: true }));

const read = (path: string): string => {
  using file = openBeneath(root, path, { kind: "file", flags: constants.O_RDONLY });
  return readFileSync(file.fd, "utf8");
};

test("opens files, directories and links that stay beneath the root", () => {
  symlinkSync("b/file", join(root, "a", "relative"));
  symlinkSync("../a/./b", join(root, "a", "up"));
  expect(["a/b/file", "./a//b/file", "a/relative", "a/up/file", "a/b/../b/file"].map(read)).toEqual(Array(5).fill("inside"));
  using directory = openBeneath(root, "a", { kind: "directory" });
  expect(readdirSync(directory.path).sort()).toEqual(["b", "relative", "up"]);
  using whole = openBeneath(root, "");
  expect(whole.stats.ino).toBe(statSync(root).ino);
});

test.each([
  ["an absolute path", "/etc/passwd", undefined],
  ["..", "..", undefined],
  ["a path above the root", "a/../../outside/b/file", undefined],
  ["an absolute link", "link", "/etc/passwd"],
  ["an absolute link into the root", "link", "/tmp"],
  ["a link above the root", "link", "../outside/b/file"],
  ["a directory link above the root", "link/b/file", "../outside"],
])("rejects %s", (_, path, target) => {
  if (target !== undefined) symlinkSync(target, join(root, "link"));
  expect(() => openBeneath(root, path)).toThrow(expect.objectContaining({ code: "OutsideRoot" }));
});

test("resolves absolute links, and .. above the root, within the root if requested", () => {
  symlinkSync("/a/b/file", join(root, "absolute"));
  symlinkSync("../../../../a/b/file", join(root, "a", "above"));
  symlinkSync(join(base, "outside", "b", "file"), join(root, "out"));
  const readBeneath = (path: string): string => {
    using file = openBeneath(root, path, { kind: "file", flags: constants.O_RDONLY, absoluteLinks: "beneath" });
    return readFileSync(file.fd, "utf8");
  };
  for (const path of ["absolute", "a/above", "../a/b/file", "a/../../a/b/file"]) expect(readBeneath(path)).toBe("inside");
  expect(() => readBeneath("out")).toThrow(expect.objectContaining({ code: "NotFound" }));
  // The path itself must be relative.
  expect(() => readBeneath("/a/b/file")).toThrow(expect.objectContaining({ code: "OutsideRoot" }));
  for (const path of ["absolute", "a/above"])
    expect(() => read(path)).toThrow(expect.objectContaining({ code: "OutsideRoot" }));
});

test("rejects a circle of links, a missing component, a file as a directory, and a wrong kind", () => {
  symlinkSync("two", join(root, "one"));
  symlinkSync("one", join(root, "two"));
  const code = (path: string, kind?: "directory" | "file"): unknown => {
    try {
      openBeneath(root, path, { ...(kind !== undefined && { kind }) }).close();
      return undefined;
    } catch (error) {
      return (error as { code?: string }).code;
    }
  };
  expect(code("one")).toBe("TooManyLinks");
  expect(code("a/missing/x")).toBe("NotFound");
  expect(code("a/b/file/x")).toBe("NotDirectory");
  expect(code("a/b/file", "directory")).toBe("NotDirectory");
  expect(code("a", "file")).toBe("WrongKind");
});

test("creates missing directories and files, and none outside the root", () => {
  const create = { directoryMode: 0o750, fileMode: 0o640 };
  openBeneath(root, "new/deep/dir", { kind: "directory", create }).close();
  openBeneath(root, "new/deep/file", { kind: "file", create }).close();
  expect(statSync(join(root, "new/deep/dir")).isDirectory()).toBe(true);
  expect(statSync(join(root, "new/deep/file")).mode & 0o777).toBe(0o640);
  symlinkSync("../outside", join(root, "link"));
  expect(() => openBeneath(root, "link/created", { kind: "directory", create })).toThrow(/leaves the root/);
  expect(readdirSync(join(base, "outside"))).toEqual(["b"]);
});

test("closes every descriptor, on success and on failure", () => {
  const count = (): number => readdirSync("/proc/self/fd").length;
  const before = count();
  for (let index = 0; index < 50; index++) {
    openBeneath(root, "a/b/file").close();
    expect(() => openBeneath(root, "a/b/none")).toThrow();
  }
  expect(count()).toBe(before);
});

describe("against a process that swaps a directory and a link", () => {
  // renameat2(RENAME_EXCHANGE) is not available to Node.js; a rename over the name comes close.
  const swapper = `
    const { mkdirSync, renameSync, rmSync, symlinkSync } = require("node:fs");
    const [root, outside] = process.argv.slice(1);
    process.stdout.write("swapping");
    for (;;) {
      try { symlinkSync(outside, root + "/next"); renameSync(root + "/a", root + "/kept"); renameSync(root + "/next", root + "/a"); } catch {}
      try { rmSync(root + "/a"); renameSync(root + "/kept", root + "/a"); } catch {}
    }`;

  test.each([
    ["absolute", "absolute"],
    ["relative", "relative"],
  ])("never opens anything outside, with a link that is %s", async (_, kind) => {
    const outside = kind === "absolute" ? join(base, "outside") : "../outside";
    const child = spawn(process.execPath, ["-e", swapper, root, outside], { stdio: ["ignore", "pipe", "inherit"] });
    try {
      await once(child.stdout, "data");
      const secret = statSync(join(base, "outside", "b", "file")).ino;
      const outcomes = { opened: 0, failed: 0 };
      for (let round = 0; round < 200_000 && (outcomes.opened < 200 || outcomes.failed < 200); round++) {
        try {
          using file = openBeneath(root, "a/b/file", { flags: constants.O_RDONLY });
          expect(fstatSync(file.fd).ino).not.toBe(secret);
          outcomes.opened++;
        } catch (error) {
          if (!/OutsideRoot|NotFound|NotDirectory/.test(String((error as { code?: string }).code))) throw error;
          outcomes.failed++;
        }
      }
      // Both outcomes occurred: the swapper really raced.
      expect(outcomes.opened).toBeGreaterThan(0);
      expect(outcomes.failed).toBeGreaterThan(0);
    } finally {
      child.kill("SIGKILL");
      await once(child, "exit");
    }
  });
});
