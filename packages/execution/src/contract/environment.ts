import assert from "node:assert/strict";
import { chmod, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { end, rule, shell } from "./setup.ts";
import type { DriverContractCase } from "./setup.ts";

/** The environment of a program. */
export const environmentRules: readonly DriverContractCase[] = [
  rule("runs as the spec's user, who owns the work directory", async (driver, { dir }) => {
    if (process.getuid?.() !== 0) return;
    await chmod(join(dir, ".."), 0o711);
    const { out, error } = await end(driver, { command: shell("id -u; id -g; touch own && echo own"), user: "65534:65533" });
    assert.deepEqual([out, error], ["65534\n65533\nown\n", ""]);
  }),
  rule("mounts binds at their targets, read-only by default", async (driver, { dir }) => {
    const source = join(dir, "..", "shared");
    await mkdir(source);
    await writeFile(join(source, "file"), "seen\n");
    const binds = [
      { source, target: "/run/read" },
      { source, target: "/run/write", isWritable: true },
    ];
    const script = "cat /run/read/file; touch /run/read/x 2>/dev/null || echo refused; touch /run/write/y && echo written";
    const { program, out } = await end(driver, { command: shell(script), isolation: { binds } });
    // A driver without isolation rejects binds rather than ignoring them.
    if (driver.name === "process") assert.match((await program.exited()).message, /does not support isolation/);
    else assert.equal(out, "seen\nrefused\nwritten\n");
  }),
  rule("passes arguments unchanged", async (driver) => {
    const words = ["a b", "", "$HOME", "`id`", "'\"", "-n", "*", "\n", "ü"];
    const { out } = await end(driver, { command: [...shell('for word; do printf "<%s>" "$word"; done'), "name", ...words] });
    assert.equal(out, words.map((word) => `<${word}>`).join(""));
  }),
  rule("passes the spec's environment and nothing of the supervisor's", async (driver) => {
    process.env.KEELSON_SECRET = "leak";
    const env = { A: "1 2", "dotted.name": "x", PATH: "/usr/bin:/bin" };
    const { out } = await end(driver, { command: ["env"], env });
    delete process.env.KEELSON_SECRET;
    const lines = out.split("\n").filter((line) => line !== "" && !/^(KEELSON_PROGRAM|PWD|HOME)=/.test(line));
    assert.deepEqual(lines.sort(), ["A=1 2", "PATH=/usr/bin:/bin", "dotted.name=x"]);
  }),
  rule("passes variables whose names the shim's script uses", async (driver) => {
    const names = ["groups", "shift", "fd", "i", "go", "pid", "rest", "start", "stat", "keelson_groups", "keelson_start"];
    const env = Object.fromEntries(names.map((name) => [name, `value of ${name}`]));
    const { out } = await end(driver, { command: ["env"], env });
    const lines = out.split("\n").filter((line) => line.includes("=value of "));
    assert.deepEqual(lines.sort(), names.map((name) => `${name}=value of ${name}`).sort());
  }),
  rule("writes all of both outputs of a program that exits immediately to one file", async (driver) => {
    const spec = { command: shell("echo error >&2; echo output"), mergeOutput: true };
    const ended = await Promise.all(Array.from({ length: 10 }, (_, index) => end(driver, spec, `p${index}`)));
    for (const { out } of ended) assert.deepEqual(out.trim().split("\n").sort(), ["error", "output"]);
  }),
  rule("runs in its own work directory without a cwd", async (driver) => {
    const { program, out } = await end(driver, { command: ["pwd"] });
    assert.equal(out.trim(), join(program.logs.stdout, "..", "work"));
  }),
  rule("inherits no file of the supervisor", async (driver) => {
    const { out } = await end(driver, {
      command: shell("for fd in 3 4 5 6 7 8 9; do [ -e /proc/$$/fd/$fd ] && echo $fd; done; true"),
    });
    assert.equal(out, "");
  }),
];
