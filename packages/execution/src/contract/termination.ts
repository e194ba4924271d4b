import assert from "node:assert/strict";
import { join } from "node:path";
import { isAlive, readStat } from "../process/proc.ts";
import { content, exitOf, rule, shell } from "./setup.ts";
import type { DriverContractCase } from "./setup.ts";

/** How programs terminate: by themselves, by signals, stopped, by their time limit. */
export const terminationRules: readonly DriverContractCase[] = [
  rule("reports a program's exit code", async (driver) => {
    const exited = await exitOf(driver, { command: shell("exit 7") });
    assert.deepEqual([exited.reason, exited.exitCode, exited.signal], ["Error", 7, undefined]);
  }),
  rule("reports a foreign signal as Error with 128 + n", async (driver, { dir, outsidePid }) => {
    const program = await driver.start({ id: "a", command: shell("echo $$ >pid; exec sleep 600") });
    const inside = Number(await content(join(dir, "a", "work", "pid")));
    process.kill(outsidePid?.("a", inside) ?? inside, "SIGKILL");
    const exited = await program.exited();
    assert.deepEqual([exited.reason, exited.exitCode, exited.signal], ["Error", 137, 9]);
  }),
  rule("reports an exit code of 128 + n as it is, with a signal only where the driver cannot tell", async (driver) => {
    const exited = await exitOf(driver, { command: shell("exit 137") });
    assert.deepEqual([exited.reason, exited.exitCode], ["Error", 137]);
    if (driver.name === "process") assert.equal(exited.signal, undefined);
  }),
  rule("reports exit code 127 as Error, not as StartFailed", async (driver) => {
    const exited = await exitOf(driver, { command: shell("exit 127") });
    assert.deepEqual([exited.reason, exited.exitCode], ["Error", 127]);
  }),
  rule("stops a program with its signal, idempotently", async (driver) => {
    const program = await driver.start({ id: "a", command: ["sleep", "600"] });
    const [first, second] = await Promise.all([program.stop(), program.stop()]);
    assert.deepEqual([first.reason, first.exitCode, first.signal], ["Stopped", 143, 15]);
    assert.deepEqual(second, first);
    assert.deepEqual(await program.stop(), first);
  }),
  rule("stops with the spec's signal", async (driver, { dir }) => {
    const ready = join(dir, "a", "work", "ready");
    const script = 'trap "exit 5" INT; echo ready >ready; while :; do sleep 0.05; done';
    const program = await driver.start({ id: "a", command: shell(script), killSignal: "SIGINT" });
    await content(ready);
    const exited = await program.stop();
    assert.deepEqual([exited.reason, exited.exitCode], ["Stopped", 5]);
  }),
  rule("kills a program that ignores the signal after the grace period", async (driver, { dir }) => {
    const script = 'trap "" TERM; echo ready >ready; while :; do sleep 600; done';
    const program = await driver.start({ id: "a", command: shell(script), killGraceMs: 60 });
    await content(join(dir, "a", "work", "ready"));
    const exited = await program.stop();
    assert.deepEqual([exited.reason, exited.exitCode], ["Stopped", 137]);
  }),
  rule("stops the whole tree: children, new sessions and orphaned double forks", async (driver, setup) => {
    const outside = (pid: number): number => setup.outsidePid?.("a", pid) ?? pid;
    const work = join(setup.dir, "a", "work");
    const sleeper = (name: string) =>
      `trap "" TERM; read -r pid rest </proc/self/stat; echo $pid >${name}; while :; do sleep 600; done`;
    const script = `(${sleeper("child")}) & setsid sh -c '${sleeper("session")}' & (setsid sh -c '${sleeper("orphan")}' &) ; ${sleeper("main")}`;
    const program = await driver.start({ id: "a", command: shell(script), killGraceMs: 50 });
    const names = ["child", "session", "orphan", "main"];
    const pids = await Promise.all(names.map(async (name) => outside(Number(await content(join(work, name))))));
    const starts = pids.map((pid) => readStat(pid)?.startTime ?? -1);
    assert.ok(pids.every((pid, index) => isAlive(pid, starts[index] ?? -1)));
    await program.stop();
    assert.deepEqual(
      names.filter((_, index) => isAlive(pids[index] ?? -1, starts[index] ?? -1)),
      [],
    );
  }),
  rule("kills what a program leaves behind", async (driver, { dir, outsidePid }) => {
    const script = "(setsid sh -c 'echo $$ >left; exec sleep 600' &); while ! [ -s left ]; do :; done; exit 3";
    const exited = await exitOf(driver, { command: shell(script) });
    const inside = Number(await content(join(dir, "a", "work", "left")));
    const pid = outsidePid?.("a", inside) ?? inside;
    assert.equal(exited.exitCode, 3);
    assert.ok(!isAlive(pid, readStat(pid)?.startTime ?? -1));
  }),
  rule("stops a program at its timeout and says so", async (driver) => {
    const exited = await exitOf(driver, { command: ["sleep", "600"], timeoutMs: 80 });
    assert.deepEqual([exited.reason, exited.exitCode, exited.signal], ["Timeout", 143, 15]);
    assert.match(exited.message, /80 ms/);
  }),
  rule("kills processes that ignore a timeout's signal, grandchildren included", async (driver) => {
    const script = "trap '' TERM; (setsid sh -c 'trap \"\" TERM; sleep 600' &); while :; do sleep 600; done";
    const exited = await exitOf(driver, { command: shell(script), timeoutMs: 1500, killGraceMs: 40 });
    assert.deepEqual([exited.reason, exited.exitCode, exited.signal], ["Timeout", 137, 9]);
  }),
  rule("delivers a signal to the program", async (driver, { dir }) => {
    const script = 'trap "echo got >got" USR1; echo ready >ready; while ! [ -s got ]; do sleep 0.05; done; exit 4';
    const program = await driver.start({ id: "a", command: shell(script) });
    await content(join(dir, "a", "work", "ready"));
    program.signal("SIGUSR1");
    assert.equal((await program.exited()).exitCode, 4);
  }),
  rule("stops a paused program", async (driver) => {
    const program = await driver.start({ id: "a", command: ["sleep", "600"] });
    program.signal("SIGSTOP");
    assert.equal((await program.stop({ graceMs: 50 })).reason, "Stopped");
  }),
];
