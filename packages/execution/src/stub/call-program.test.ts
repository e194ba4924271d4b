import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { callFailed, callProgram, type ChildCalls, describeFailure, type SystemCall } from "./call-program.ts";
import { hasStub } from "./executable.ts";

let dir: string;

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "calls-"));
});

afterEach(() => rmSync(dir, { recursive: true, force: true }));

function run(calls: readonly (SystemCall | ChildCalls)[], ...command: string[]) {
  const path = join(dir, "program");
  writeFileSync(path, callProgram(calls));
  chmodSync(path, 0o500);
  const { status, stdout, stderr } = spawnSync(path, command, { env: { A: "1", B: "" }, encoding: "utf8" });
  return { status, stdout, stderr };
}

const mkdir = (name: string, mode = 0o750): SystemCall => ({
  name: "mkdir",
  args: [join(dir, name), mode],
  failure: `could not create ${name}`,
});

describe.runIf(hasStub())("a program of system calls", () => {
  test("makes its calls in order, then executes its arguments with its environment", () => {
    const limit = Buffer.alloc(16);
    limit.writeBigUInt64LE(5n << 20n, 0);
    limit.writeBigUInt64LE(6n << 20n, 8);
    const result = run(
      [mkdir("a"), mkdir("a/b"), { name: "prlimit64", args: [0, 1, limit, 0], failure: "could not limit files" }],
      ...["/bin/sh", "-c", 'printf "%s|" "$0" "$@"; env | sort; ulimit -f; ulimit -H -f', "zero", "", "a b\n'\"\\$x"],
    );
    expect(result.stderr).toBe("");
    expect(result.stdout).toBe(`zero||a b\n'"\\$x|A=1\nB=\nPWD=${process.cwd()}\n10240\n12288\n`);
    expect(statSync(join(dir, "a", "b")).mode & 0o777).toBe(0o750);
  });

  test("stops at the first call that fails, and names it and the error", () => {
    expect(run([mkdir("a"), mkdir("missing/a"), mkdir("b")], "/bin/true")).toEqual({
      status: callFailed,
      stdout: "",
      stderr: "could not create missing/a: error 002\n",
    });
    expect([existsSync(join(dir, "a")), existsSync(join(dir, "b"))]).toEqual([true, false]);
  });

  test("continues after an error that it accepts, but not after another one", () => {
    const repeated = { ...mkdir("a"), accepts: 17 };
    expect(run([mkdir("a"), repeated, repeated], "/bin/echo", "done")).toMatchObject({ status: 0, stdout: "done\n" });
    expect(run([{ ...repeated, accepts: 2 }], "/bin/true")).toMatchObject({ status: callFailed, stderr: /error 017/ });
  });

  test("reports a program that cannot be executed", () => {
    expect(run([], join(dir, "none"))).toEqual({
      status: callFailed,
      stdout: "",
      stderr: "could not execute the program: error 002\n",
    });
    expect(run([], "/bin/echo", "nothing", "before")).toMatchObject({ stdout: "nothing before\n" });
  });

  test("waits for the calls of a child process, and stops if they fail", () => {
    const failure = "could not create a process";
    const twice = [{ child: [mkdir("a")], failure }, mkdir("a/b"), { child: [mkdir("a/b/c")], failure }];
    expect(run(twice, "/bin/ls", join(dir, "a", "b"))).toMatchObject({ status: 0, stdout: "c\n", stderr: "" });
    expect(run([{ child: [mkdir("a"), mkdir("never")], failure }], "/bin/echo", "never")).toEqual({
      status: callFailed,
      stdout: "",
      stderr: "could not create a: error 017\n",
    });
  });
});

test("describes a failure in the words of the system", () => {
  expect(describeFailure("could not mount /a: error 013")).toBe("could not mount /a: permission denied");
  expect(describeFailure("mount: /a: bad")).toBe("mount: /a: bad");
});
