import { execFileSync } from "node:child_process";
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { agentProgram } from "./agent-program-path.ts";

/** An installation of the built program, whose agent only prints where it comes from. */
function installed() {
  const dir = realpathSync(mkdtempSync(join(tmpdir(), "keelson-agent-")));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  for (const folder of ["dist/agent", "dist/bundle/one", "node_modules/@keelson"])
    mkdirSync(join(dir, folder), { recursive: true });
  const operator = dirname(fileURLToPath(import.meta.resolve("@keelson/operator/package.json")));
  symlinkSync(operator, join(dir, "node_modules/@keelson/operator"));
  writeFileSync(join(dir, "package.json"), JSON.stringify({ type: "module" }));
  const program = join(dir, "dist/agent/agent-program.js");
  copyFileSync(agentProgram, program);
  writeFileSync(join(dir, "dist/agent/agent-main.js"), 'console.log("packages");');
  writeFileSync(join(dir, "dist/bundle/one/agent-main.js"), 'console.log("bundle");');
  const input = join(dir, "dist/.tsbuildinfo");
  writeFileSync(input, "");
  const record = { folder: "one", inputs: [["../.tsbuildinfo", statSync(input).mtimeMs]] };
  writeFileSync(join(dir, "dist/bundle/current.json"), JSON.stringify(record));
  const run = (env: Readonly<Record<string, string>> = {}): string =>
    execFileSync(process.execPath, [program], { env: { ...process.env, KEELSON_BUNDLE: "", ...env }, encoding: "utf8" }).trim();
  return { input, run };
}

test("an agent runs from its bundle until anything is built, unless bundles are off", () => {
  const { input, run } = installed();
  expect(run()).toBe("bundle");
  expect(run({ KEELSON_BUNDLE: "off" })).toBe("packages");
  utimesSync(input, 1, 1);
  expect(run()).toBe("packages");
});
