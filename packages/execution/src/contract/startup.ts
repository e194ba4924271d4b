import assert from "node:assert/strict";
import { stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { ProgramSpec } from "../driver.ts";
import { end, exitOf, isError, rule, shell } from "./setup.ts";
import type { DriverContractCase } from "./setup.ts";

/** How programs start, and what is told of those that cannot. */
export const startingRules: readonly DriverContractCase[] = [
  rule("a program that exits with 0 is Completed and its output is in its logs", async (driver) => {
    const { program, out, error } = await end(driver, { command: shell("echo out; echo error >&2") });
    const exited = await program.exited();
    assert.equal(exited.reason, "Completed");
    assert.equal(exited.exitCode, 0);
    assert.deepEqual([out, error], ["out\n", "error\n"]);
    assert.ok(exited.startedAt !== undefined && exited.startedAt <= exited.finishedAt);
  }),
  rule("a program that is not there is StartFailed with 127 and a sentence", async (driver) => {
    const exited = await exitOf(driver, { command: ["no-such-program"] });
    assert.deepEqual([exited.reason, exited.exitCode, exited.startedAt], ["StartFailed", 127, undefined]);
    assert.match(exited.message, /no-such-program: not found in PATH/);
  }),
  rule("a file that may not be executed is StartFailed with 126", async (driver, { dir }) => {
    const path = join(dir, "..", "plain-file");
    await writeFile(path, "echo hi\n", { mode: 0o644 });
    const exited = await exitOf(driver, { command: [path] });
    assert.deepEqual([exited.reason, exited.exitCode], ["StartFailed", 126]);
    assert.match(exited.message, /permission denied/);
  }),
  rule("a folder as a program is StartFailed", async (driver) => {
    const exited = await exitOf(driver, { command: ["/etc"] });
    assert.equal(exited.reason, "StartFailed");
    assert.match(exited.message, /is a directory/);
  }),
  rule("a script whose interpreter is missing is StartFailed and names the interpreter", async (driver, { dir }) => {
    const path = join(dir, "..", "script");
    await writeFile(path, "#!/no/such/interpreter\n", { mode: 0o755 });
    const exited = await exitOf(driver, { command: [path] });
    assert.equal(exited.reason, "StartFailed");
    assert.match(exited.message, /no\/such\/interpreter/);
  }),
  rule("what only the kernel can refuse is StartFailed too", async (driver, { dir }) => {
    // A script whose interpreter is there, is executable, and cannot run either.
    const [inner, outer] = [join(dir, "..", "inner"), join(dir, "..", "outer")];
    await writeFile(inner, "#!/no/such/interpreter\n", { mode: 0o755 });
    await writeFile(outer, `#!${inner}\n`, { mode: 0o755 });
    const exited = await exitOf(driver, { command: [outer] });
    assert.deepEqual([exited.reason, exited.exitCode], ["StartFailed", 127]);
    assert.match(exited.message, /outer: not found/);
  }),
  rule("a program for another processor, or a damaged one, is StartFailed", async (driver, { dir }) => {
    const path = join(dir, "..", "foreign");
    const header = Buffer.alloc(64);
    header.write("\u007fELF\u0002\u0001", "latin1");
    header.writeUInt16LE(0x1234, 18);
    await writeFile(path, header, { mode: 0o755 });
    const foreign = await end(driver, { command: [path] }, "foreign");
    assert.match((await foreign.program.exited()).message, /another kind of processor/);
    await writeFile(path, header.subarray(0, 20));
    const damaged = await end(driver, { command: [path] }, "damaged");
    assert.match((await damaged.program.exited()).message, /damaged/);
  }),
  rule("a working directory that is missing is StartFailed and named", async (driver) => {
    const exited = await exitOf(driver, { command: ["true"], cwd: "/no/such/folder" });
    assert.equal(exited.reason, "StartFailed");
    assert.match(exited.message, /\/no\/such\/folder/);
  }),
  rule("a name can be used once, until it is removed", async (driver) => {
    const { program } = await end(driver, { command: ["true"] });
    await assert.rejects(driver.start({ id: "a", command: ["true"] }), isError("AlreadyExists"));
    await program.remove();
    assert.equal(driver.get("a"), undefined);
    await assert.rejects(stat(join(program.logs.stdout, "..")));
    await end(driver, { command: ["true"] });
  }),
  rule("of two starts of one name at the same time, one is refused", async (driver) => {
    const both = await Promise.allSettled([1, 2].map(() => driver.start({ id: "a", command: ["true"] })));
    assert.deepEqual(both.map((one) => one.status).sort(), ["fulfilled", "rejected"]);
  }),
  rule("a bad spec is refused and names the field", async (driver) => {
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
  rule("a program that runs cannot be removed", async (driver) => {
    const program = await driver.start({ id: "a", command: ["sleep", "600"] });
    assert.equal(program.state.kind, "running");
    await assert.rejects(program.remove(), isError("NotEnded"));
  }),
];
