import assert from "node:assert/strict";
import { stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { ProgramSpec } from "../driver.ts";
import { end, exitOf, isError, rule, shell } from "./setup.ts";
import type { DriverContractCase } from "./setup.ts";

/** How programs start, and how failures to start are reported. */
export const startupRules: readonly DriverContractCase[] = [
  rule("reports exit code 0 as Completed and writes the output to the logs", async (driver) => {
    const { program, out, error } = await end(driver, { command: shell("echo out; echo error >&2") });
    const exited = await program.exited();
    assert.equal(exited.reason, "Completed");
    assert.equal(exited.exitCode, 0);
    assert.deepEqual([out, error], ["out\n", "error\n"]);
    assert.ok(exited.startedAt !== undefined && exited.startedAt <= exited.finishedAt);
  }),
  rule("reports a missing program as StartFailed with 127", async (driver) => {
    const exited = await exitOf(driver, { command: ["no-such-program"] });
    assert.deepEqual([exited.reason, exited.exitCode, exited.startedAt], ["StartFailed", 127, undefined]);
    assert.match(exited.message, /no-such-program: not found in PATH/);
  }),
  rule("reports a file without execute permission as StartFailed with 126", async (driver, { dir }) => {
    const path = join(dir, "..", "plain-file");
    await writeFile(path, "echo hi\n", { mode: 0o644 });
    const exited = await exitOf(driver, { command: [path] });
    assert.deepEqual([exited.reason, exited.exitCode], ["StartFailed", 126]);
    assert.match(exited.message, /permission denied/);
  }),
  rule("reports a directory as StartFailed", async (driver) => {
    const exited = await exitOf(driver, { command: ["/etc"] });
    assert.equal(exited.reason, "StartFailed");
    assert.match(exited.message, /is a directory/);
  }),
  rule("reports a script with a missing interpreter as StartFailed and names the interpreter", async (driver, { dir }) => {
    const path = join(dir, "..", "script");
    await writeFile(path, "#!/no/such/interpreter\n", { mode: 0o755 });
    const exited = await exitOf(driver, { command: [path] });
    assert.equal(exited.reason, "StartFailed");
    assert.match(exited.message, /no\/such\/interpreter/);
  }),
  rule("reports what only the kernel can reject as StartFailed", async (driver, { dir }) => {
    // A script whose interpreter exists, is executable, and cannot run either.
    const [inner, outer] = [join(dir, "..", "inner"), join(dir, "..", "outer")];
    await writeFile(inner, "#!/no/such/interpreter\n", { mode: 0o755 });
    await writeFile(outer, `#!${inner}\n`, { mode: 0o755 });
    const exited = await exitOf(driver, { command: [outer] });
    assert.deepEqual([exited.reason, exited.exitCode], ["StartFailed", 127]);
    assert.match(exited.message, /outer: not found/);
  }),
  rule("reports a program for another architecture, or a truncated one, as StartFailed", async (driver, { dir }) => {
    const path = join(dir, "..", "foreign");
    const header = Buffer.alloc(64);
    header.write("\u007fELF\u0002\u0001", "latin1");
    header.writeUInt16LE(0x1234, 18);
    await writeFile(path, header, { mode: 0o755 });
    const foreign = await end(driver, { command: [path] }, "foreign");
    assert.match((await foreign.program.exited()).message, /another CPU architecture/);
    await writeFile(path, header.subarray(0, 20));
    const damaged = await end(driver, { command: [path] }, "damaged");
    assert.match((await damaged.program.exited()).message, /truncated/);
  }),
  rule("reports a missing working directory as StartFailed and names it", async (driver) => {
    const exited = await exitOf(driver, { command: ["true"], cwd: "/no/such/folder" });
    assert.equal(exited.reason, "StartFailed");
    assert.match(exited.message, /\/no\/such\/folder/);
  }),
  rule("rejects an id in use until its program is removed", async (driver) => {
    const { program } = await end(driver, { command: ["true"] });
    await assert.rejects(driver.start({ id: "a", command: ["true"] }), isError("AlreadyExists"));
    await program.remove();
    assert.equal(driver.get("a"), undefined);
    await assert.rejects(stat(join(program.logs.stdout, "..")));
    await end(driver, { command: ["true"] });
  }),
  rule("rejects one of two concurrent starts of one id", async (driver) => {
    const both = await Promise.allSettled([1, 2].map(() => driver.start({ id: "a", command: ["true"] })));
    assert.deepEqual(both.map((one) => one.status).sort(), ["fulfilled", "rejected"]);
  }),
  rule("rejects an invalid spec and names the field", async (driver) => {
    const bad: readonly (readonly [unknown, RegExp])[] = [
      [{ id: "../x", command: ["true"] }, /id/],
      [{ id: "a", command: [] }, /command/],
      [{ id: "a", command: ["true", "x\0y"] }, /command\[1\]/],
      [{ id: "a", command: ["true"], env: { "a=b": "" } }, /env/],
      [{ id: "a", command: ["true"], cwd: "relative" }, /cwd/],
      [{ id: "a", command: ["true"], timeoutMs: -1 }, /timeoutMs/],
      [{ id: "a", command: ["true"], killSignal: "SIGNOPE" }, /killSignal/],
      [{ id: "a", command: ["true"], limits: { pids: 0.5 } }, /limits.pids/],
    ];
    for (const [spec, field] of bad) {
      await assert.rejects(
        () => driver.start(spec as ProgramSpec),
        (error) => isError("InvalidSpec")(error) && field.test(String(error)),
      );
    }
    assert.equal(driver.list().length, 0);
  }),
  rule("does not remove a running program", async (driver) => {
    const program = await driver.start({ id: "a", command: ["sleep", "600"] });
    assert.equal(program.state.kind, "running");
    await assert.rejects(program.remove(), isError("NotEnded"));
  }),
];
