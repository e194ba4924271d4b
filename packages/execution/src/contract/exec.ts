import assert from "node:assert/strict";
import { join } from "node:path";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { content, isError, rule, shell } from "./setup.ts";
import type { DriverContractCase } from "./setup.ts";

/** Commands alongside a running program. */
export const execRules: readonly DriverContractCase[] = [
  rule(
    "runs a command in the program's directory and environment, with its own exit code and separate outputs",
    async (driver) => {
      const program = await driver.start({
        id: "a",
        command: ["sleep", "600"],
        env: { PATH: "/usr/bin:/bin", A: "1", B: "2" },
      });
      const session = await program.exec({ command: shell('pwd; echo "$A$B"; cat; echo error >&2; exit 6'), env: { B: "3" } });
      session.stdin.end("typed\n");
      const [out, error] = await Promise.all([text(session.stdout), text(session.stderr ?? Readable.from([]))]);
      assert.deepEqual([out, error], [`${join(program.logs.stdout, "..", "work")}\n13\ntyped\n`, "error\n"]);
      assert.deepEqual(await session.exited(), { exitCode: 6 });
      assert.equal(program.state.kind, "running");
    },
  ),
  rule("runs a command on a terminal and resizes it", async (driver, { dir }) => {
    const program = await driver.start({ id: "a", command: ["sleep", "600"] });
    const script = "tty -s && stty size; echo ready >ready; read -r line; stty size; exit 3";
    const session = await program.exec({ command: shell(script), terminal: { columns: 91, rows: 17 } });
    await content(join(dir, "a", "work", "ready"));
    await session.resize({ columns: 70, rows: 33 });
    session.stdin.write("go\n");
    const lines = (await text(session.stdout)).split(/\r?\n/);
    assert.deepEqual([lines.includes("17 91"), lines.includes("33 70")], [true, true], lines.join("|"));
    assert.deepEqual(await session.exited(), { exitCode: 3 });
  }),
  rule("signals a command, with or without a terminal, which may handle the signal", async (driver, { dir }) => {
    const program = await driver.start({ id: "a", command: ["sleep", "600"] });
    for (const [name, terminal] of [
      ["plain", undefined],
      ["terminal", { columns: 80, rows: 24 }],
    ] as const) {
      const script = `trap 'echo caught; exit 5' TERM; echo ready >${name}; while :; do sleep 600 >/dev/null 2>&1 & wait $!; done`;
      const session = await program.exec({ command: shell(script), ...(terminal && { terminal }) });
      const output = text(session.stdout);
      await content(join(dir, "a", "work", name));
      await session.signal("SIGTERM");
      assert.deepEqual(await session.exited(), { exitCode: 5 });
      await session.kill();
      // A shell on a terminal also reports the end of its children.
      assert.match(await output, /^caught\r?$/m);
    }
  }),
  rule("returns 127 for a missing command, and kills commands with the program", async (driver) => {
    const program = await driver.start({ id: "a", command: ["sleep", "600"] });
    const missing = await program.exec({ command: ["no-such-command"] });
    missing.stdout.resume();
    assert.deepEqual(await missing.exited(), { exitCode: 127 });
    const session = await program.exec({ command: ["sleep", "600"] });
    await program.stop({ graceMs: 0 });
    assert.notEqual((await session.exited()).exitCode, 0);
    await assert.rejects(program.exec({ command: ["true"] }), isError("NotRunning"));
  }),
];
