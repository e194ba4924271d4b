import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";
import { lateOptimization } from "./v8-options.ts";

test("this version of Node.js accepts the options of V8", () => {
  const script = "process.stdout.write('started')";
  expect(execFileSync(process.execPath, [...lateOptimization(), "-e", script], { encoding: "utf8" })).toBe("started");
});

test("versions whose options are not known get none", () => {
  expect(lateOptimization("20.19.0")).toEqual(["--interrupt-budget=300000", "--wasm-tiering-budget=20000000"]);
  expect(lateOptimization("99.0.0")).toEqual([]);
});
