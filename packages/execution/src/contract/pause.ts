import assert from "node:assert/strict";
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import type { Program } from "../driver.ts";
import { content, type DriverContractCase, isError, rule, shell, withDriver } from "./setup.ts";

/* How programs are paused, for drivers with a freezer. A paused program is recognized by what it does not do. */

/** Writes the file `ready` repeatedly. */
const ticking = shell("while :; do echo ready >ready; sleep 0.05; done");

/** CPU time of all processes of a program, which a paused program does not use. */
const usedTime = (pids: readonly number[]): readonly string[] =>
  pids.map((pid) => readFileSync(`/proc/${pid}/stat`, "latin1").split(" ").slice(13, 15).join(" "));

/** Uses this much CPU time, in which a running program would use some too. */
function useTime(ms: number): void {
  const began = process.cpuUsage();
  while (process.cpuUsage(began).user < ms * 1000);
}

async function startTicking(driver: Parameters<Parameters<typeof rule>[1]>[0], dir: string): Promise<Program> {
  const program = await driver.start({ id: "a", command: ticking });
  await content(join(dir, "a", "work", "ready"));
  return program;
}

/** The rules of pause and resume. */
export const pauseRules: readonly DriverContractCase[] = [
  rule("pauses and resumes a program, idempotently", async (driver, { dir }) => {
    const program = await driver.start({ id: "a", command: shell("echo ready >ready; while :; do :; done") });
    await content(join(dir, "a", "work", "ready"));
    await program.pause();
    await program.pause();
    assert.deepEqual([program.isPaused, program.state.kind], [true, "running"]);
    const pids = treePids(program);
    const before = usedTime(pids);
    useTime(50);
    assert.deepEqual(usedTime(pids), before);
    await program.resume();
    await program.resume();
    assert.equal(program.isPaused, false);
    // The busy loop uses CPU time again.
    while (usedTime(pids).join() === before.join()) await new Promise((resolve) => setImmediate(resolve));
  }),
  rule("rejects a command alongside a paused program, and freezes one that runs", async (driver, { dir }) => {
    const program = await startTicking(driver, dir);
    const session = await program.exec({ command: shell("echo up; read -r line; echo got $line") });
    const output = text(session.stdout);
    await program.pause();
    await assert.rejects(program.exec({ command: ["true"] }), isError("Paused"));
    session.stdin.end("word\n");
    await program.resume();
    assert.equal(await output, "up\ngot word\n");
  }),
  rule("stops a paused program with its signal", async (driver, { dir }) => {
    const script = 'trap "exit 5" TERM; echo ready >ready; while :; do sleep 0.05; done';
    const program = await driver.start({ id: "a", command: shell(script) });
    await content(join(dir, "a", "work", "ready"));
    await program.pause();
    const exited = await program.stop();
    assert.deepEqual([exited.reason, exited.exitCode, program.isPaused], ["Stopped", 5, false]);
    await assert.rejects(program.pause(), isError("NotRunning"));
    await assert.rejects(program.resume(), isError("NotRunning"));
  }),
  rule("kills a paused program without a grace period", async (driver, { dir }) => {
    const program = await startTicking(driver, dir);
    await program.pause();
    assert.equal((await program.stop({ graceMs: 0 })).exitCode, 137);
  }),
  {
    title: "keeps a program paused while its supervisor is replaced",
    async run(setup) {
      const first = await setup.open();
      await (await startTicking(first, setup.dir)).pause();
      await first.close();
      await withDriver(setup, async (driver) => {
        const program = driver.get("a");
        assert.ok(program?.isPaused);
        rmSync(join(setup.dir, "a", "work", "ready"));
        await program.resume();
        await content(join(setup.dir, "a", "work", "ready"));
      });
    },
  },
];

/** Host pids of the processes of a program. */
function treePids(program: Program): readonly number[] {
  const { state } = program;
  assert.ok(state.kind === "running");
  const found = [state.pid];
  for (const pid of found) {
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "latin1").split(" ").filter(Boolean).map(Number);
    found.push(...children);
  }
  return found;
}
