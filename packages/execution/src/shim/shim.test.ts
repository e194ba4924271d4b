import fc from "fast-check";
import { expect, test } from "vitest";
import { parseExitFile } from "./exit-file.ts";
import { splitEnvironment } from "./shim.ts";

test("parses the program, its exit code and start errors from an exit file", () => {
  expect(parseExitFile("pid 12 345\nexit 7\n\n\n")).toEqual({
    program: { pid: 12, startTime: 345 },
    execFailed: false,
    unreleased: false,
    outsideCgroup: false,
    oomKilled: false,
    hasMessage: false,
    exitCode: 7,
  });
  expect(parseExitFile("outside\npid 1 2\nexec-failed\nexit 127\n")).toMatchObject({
    execFailed: true,
    outsideCgroup: true,
    exitCode: 127,
  });
});

test("tells a program that a signal killed by the message of the shell", () => {
  for (const message of [
    "Killed",
    "Segmentation fault (core dumped)",
    "/bin/sh: line 4: 31 Killed   ( trap '' PIPE;\n    exit 0 )",
  ])
    expect(parseExitFile(`pid 12 345\n${message}\nexit 137\n\n`)).toMatchObject({ hasMessage: true, exitCode: 137 });
});

test("finds no exit code in a truncated exit file", () => {
  for (const text of ["", "\n\n\n", "pid 12 345\n", "pid 12 345\nexi", "pid"])
    expect(parseExitFile(text).exitCode).toBeUndefined();
});

test("passes every variable, and none that a shell would interpret through the shell", () => {
  fc.assert(
    fc.property(
      fc.dictionary(
        fc.string({ minLength: 1 }).filter((name) => !/[=\0]/.test(name)),
        fc.string(),
      ),
      (env) => {
        const { inherited, assignments } = splitEnvironment(env);
        const all = [...Object.entries(inherited).map(([name, value]) => `${name}=${value}`), ...assignments].sort();
        expect(all).toEqual(
          Object.entries(env)
            .map(([name, value]) => `${name}=${value}`)
            .sort(),
        );
        for (const name of Object.keys(inherited)) expect(name).toMatch(/^[A-Za-z_]\w*$/);
      },
    ),
  );
  const { inherited } = splitEnvironment({
    LD_PRELOAD: "x",
    ENV: "x",
    keelson_groups: "x",
    IFS: "x",
    OPTIND: "x",
    BASH_ENV: "x",
    PATH: "p",
    HOME: "h",
    ENVIRONMENT: "e",
  });
  expect(Object.keys(inherited)).toEqual(["PATH", "HOME", "ENVIRONMENT"]);
});
