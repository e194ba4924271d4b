import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, test } from "vitest";

/** Runs `program` as the main of a process, with `runManager` and a manager whose stop waits for a line of input. */
function start(program: string) {
  const source = `
    import { runManager } from "@keelson/controller";
    const released = new Promise((resolve) => process.stdin.once("data", resolve));
    const say = (line) => process.stdout.write(line + "\\n");
    const manager = {
      done: new Promise(() => {}),
      start: async () => {},
      stop: async () => { say("stopping"); await released; process.stdin.destroy(); say("stopped"); },
    };
    const logger = { error: ({ err }, message) => say(message + ": " + err.message) };
    ${program}
    say("over");
  `;
  const child = spawn(process.execPath, ["--input-type=module", "-e", source], {
    cwd: import.meta.dirname,
    stdio: ["pipe", "pipe", "ignore"],
  });
  const exit = once(child, "exit") as Promise<[number | null, NodeJS.Signals | null]>;
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
  return {
    child,
    exit,
    printed: async (line: string) => {
      await expect.poll(() => text).toContain(line);
    },
    /** Everything it printed, when it has ended. */
    output: async () => {
      if (!child.stdout.readableEnded) await once(child.stdout, "end");
      return text.trimEnd().split("\n");
    },
    [Symbol.dispose]: () => void child.kill("SIGKILL"),
  };
}

const run = `await runManager(manager, { logger, onStarted: () => say("started") });`;

test.each(["SIGTERM", "SIGINT"] as const)("one %s stops the manager, and main continues", async (signal) => {
  using program = start(run);
  await program.printed("started");
  program.child.kill(signal);
  await program.printed("stopping");
  program.child.stdin.end("stop\n");
  expect(await program.exit).toEqual([0, null]);
  expect(await program.output()).toEqual(["started", "stopping", "stopped", "over"]);
});

test.each([
  ["SIGTERM", 143],
  ["SIGINT", 130],
] as const)("a second %s exits immediately", async (signal, status) => {
  using program = start(run);
  await program.printed("started");
  program.child.kill("SIGTERM");
  await program.printed("stopping");
  program.child.kill(signal);
  expect(await program.exit).toEqual([status, null]);
  expect(await program.output()).toEqual(["started", "stopping"]);
});

test.each([
  ["unhandled rejection", `Promise.reject(new Error("lost"))`],
  ["uncaught exception", `setTimeout(() => { throw new Error("lost"); })`],
])("an %s is logged, stops the manager, and exits with 1", async (_, fault) => {
  using program = start(`await runManager(manager, { logger, onStarted: () => { ${fault} } });`);
  await program.printed("stopping");
  program.child.stdin.end("stop\n");
  expect(await program.exit).toEqual([1, null]);
  expect(await program.output()).toEqual(["unhandled error; stopping: lost", "stopping", "stopped"]);
});

test("exits with 1 if the stop after an unhandled error hangs", async () => {
  using program = start(
    `await runManager(manager, { logger, faultGraceMs: 1, onStarted: () => { Promise.reject(new Error("lost")); } });`,
  );
  expect(await program.exit).toEqual([1, null]);
  expect(await program.output()).toEqual(["unhandled error; stopping: lost", "stopping"]);
});

test("a signal cancels the start", async () => {
  using program = start(`
    manager.start = (signal) => new Promise((_, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason));
      say("starting");
    });
    ${run}
  `);
  await program.printed("starting");
  program.child.kill("SIGTERM");
  await program.printed("stopping");
  program.child.stdin.end("stop\n");
  expect(await program.exit).toEqual([0, null]);
  expect(await program.output()).toEqual(["starting", "stopping", "stopped", "over"]);
});

test("stops a failed manager and rejects with its error", async () => {
  using program = start(`manager.done = Promise.reject(new Error("lease lost"));
    try { ${run} } catch (error) { say("main got " + error.message); }`);
  program.child.stdin.end("stop\n");
  expect(await program.exit).toEqual([0, null]);
  expect(await program.output()).toEqual(["started", "stopping", "stopped", "main got lease lost", "over"]);
});
