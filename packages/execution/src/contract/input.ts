import assert from "node:assert/strict";
import { join } from "node:path";
import { readFileSync } from "node:fs";
import type { Program } from "../driver.ts";
import { content, isError, rule, shell } from "./setup.ts";
import type { DriverContractCase } from "./setup.ts";

const output = (program: Program): string => readFileSync(program.logs.stdout, "utf8").replaceAll("\r", "");

/** Programs with an input, with and without a terminal. */
export const inputRules: readonly DriverContractCase[] = [
  rule("ends an input of kind once with its writer", async (driver) => {
    const program = await driver.start({ id: "a", command: shell("cat; echo over"), input: "once" });
    program.openInput().end("first\nsecond\n");
    assert.equal((await program.exited()).exitCode, 0);
    assert.equal(output(program), "first\nsecond\nover\n");
    assert.throws(() => program.openInput(), isError("NotRunning"));
  }),
  rule("keeps a held input open for the next writer", async (driver, { dir }) => {
    const script = 'read -r a; echo "$a" >first; read -r b; echo "$a $b"';
    const program = await driver.start({ id: "a", command: shell(script), input: "held" });
    program.openInput().end("one\n");
    assert.equal(await content(join(dir, "a", "work", "first")), "one");
    program.openInput().end("two\n");
    assert.equal((await program.exited()).exitCode, 0);
    assert.equal(output(program), "one two\n");
  }),
  rule("starts a program on a terminal with its size, input and exit code", async (driver, { dir }) => {
    const script = "tty -s && stty size; echo ready >ready; read -r line; stty size; echo got $line; exit 3";
    const terminal = { columns: 91, rows: 17 };
    const program = await driver.start({ id: "a", command: shell(script), input: "held", terminal });
    await content(join(dir, "a", "work", "ready"));
    await program.resize({ columns: 70, rows: 33 });
    program.openInput().end("typed\n");
    assert.equal((await program.exited()).exitCode, 3);
    const lines = output(program).split("\n");
    for (const line of ["17 91", "33 70", "got typed"]) assert.ok(lines.includes(line), lines.join("|"));
  }),
  rule("stops a program with a terminal by its signal and grants the grace period", async (driver, { dir }) => {
    const script = "trap 'echo ended; exit 7' TERM; echo ready >ready; while :; do read -r line; done";
    const terminal = { columns: 80, rows: 24 };
    const program = await driver.start({ id: "a", command: shell(script), input: "held", terminal });
    await content(join(dir, "a", "work", "ready"));
    const exit = await program.stop({ graceMs: 30_000 });
    assert.deepEqual([exit.reason, exit.exitCode], ["Stopped", 7]);
    assert.match(output(program), /^ended$/m);
  }),
  rule("runs commands alongside a program with a terminal", async (driver) => {
    const terminal = { columns: 80, rows: 24 };
    const program = await driver.start({ id: "a", command: shell("cat"), input: "held", env: { A: "1" }, terminal });
    const session = await program.exec({ command: shell("test $A = 1 && exit 5") });
    session.stdout.resume();
    session.stdin.end();
    assert.deepEqual(await session.exited(), { exitCode: 5 });
  }),
  {
    title: "keeps a held input open across a supervisor's restart",
    async run({ open }) {
      const first = await open();
      await first.start({ id: "a", command: shell("read -r line; echo got $line"), input: "held" });
      await first.close();
      const next = await open();
      try {
        const program = next.get("a");
        program?.openInput().end("later\n");
        assert.equal((await program?.exited())?.exitCode, 0);
        assert.equal(program && output(program), "got later\n");
      } finally {
        await next.get("a")?.stop({ graceMs: 0 });
        await next.close();
      }
    },
  },
  {
    title: "lets a program with a terminal outlive its supervisor and accepts input from the next one",
    async run({ open }) {
      const first = await open();
      const terminal = { columns: 80, rows: 24 };
      await first.start({ id: "a", command: shell("read -r line; echo got $line; exit 4"), input: "held", terminal });
      await first.close();
      const next = await open();
      try {
        const program = next.get("a");
        assert.equal(program?.state.kind, "running");
        program.openInput().end("later\n");
        assert.equal((await program.exited()).exitCode, 4);
        assert.match(output(program), /^got later$/m);
      } finally {
        await next.get("a")?.stop({ graceMs: 0 });
        await next.close();
      }
    },
  },
];
