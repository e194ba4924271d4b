import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { hasStub } from "./executable.ts";
import { claimStub, isUnclaimed, startStub, type StubTarget, stubMessages, unclaimedStub } from "./start-stub.ts";

let dir: string;

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "stub-"));
});

afterEach(() => rmSync(dir, { recursive: true, force: true }));

function write(content: Buffer): string {
  const path = join(dir, "stub");
  writeFileSync(path, content);
  chmodSync(path, 0o700);
  return path;
}

const stubOf = (change: Partial<StubTarget>): string =>
  write(startStub({ path: "/bin/sh", argv: ["sh", "-c", "true"], env: {}, cwd: "/", ...change }));

describe.runIf(hasStub())("a stub", () => {
  test("executes its program with exactly its arguments, environment and directory", () => {
    const script = 'printf "%s|" "$0" "$@"; pwd; tr "\\0" "\\n" </proc/self/environ';
    const argv = ["own name", "-c", script, "zero", "", "a b\n'\"\\$x", "\u00e9\u0081\u4e16"];
    const env = { "with.dot": "1", EMPTY: "", LINES: "a\nb", PWD: dir };
    const output = execFileSync(stubOf({ argv, env, cwd: dir }), { encoding: "utf8", env: { INHERITED: "no" } });
    expect(output).toBe(`zero||a b\n'"\\$x|\u00e9\u0081\u4e16|${dir}\nwith.dot=1\nEMPTY=\nLINES=a\nb\nPWD=${dir}\n`);
  });

  test("executes a program with the longest argument that the kernel accepts", () => {
    const long = "x".repeat(131_071);
    const output = execFileSync(stubOf({ argv: ["sh", "-c", 'echo "${#1}"', "sh", long] }), { encoding: "utf8" });
    expect(output).toBe("131071\n");
  });

  test("exits with 126 and a message if the directory or the program does not exist", () => {
    const failures = [stubOf({ cwd: join(dir, "missing") }), undefined].map((path) =>
      spawnSync(path ?? stubOf({ path: join(dir, "missing") }), { encoding: "utf8" }),
    );
    expect(failures.map(({ status, stderr }) => [status, stderr])).toEqual([
      [126, `${stubMessages.cwd}\n`],
      [126, `${stubMessages.exec}\n`],
    ]);
  });

  test("is claimed in place, and does nothing if the claim is interrupted before its header is written", () => {
    const target = { path: "/bin/sh", argv: ["sh", "-c", "echo claimed"], env: {}, cwd: "/" };
    const path = write(unclaimedStub());
    claimStub(path, target);
    expect(readFileSync(path)).toEqual(startStub(target));
    expect(isUnclaimed(readFileSync(path))).toBe(false);
    expect(execFileSync(path, { encoding: "utf8" })).toBe("claimed\n");
    const header = 120;
    for (const length of [header + 13, 200, startStub(target).length]) {
      const half = Buffer.concat([unclaimedStub().subarray(0, header), startStub(target).subarray(header, length)]);
      expect(isUnclaimed(half)).toBe(true);
      const { status, stdout, stderr } = spawnSync(write(half), { encoding: "utf8" });
      expect([status, stdout, stderr]).toEqual([0, "", ""]);
    }
  });

  test("does nothing before it is claimed", () => {
    const { status, stdout, stderr } = spawnSync(write(unclaimedStub()), { encoding: "utf8" });
    expect([status, stdout, stderr]).toEqual([0, "", ""]);
  });
});
