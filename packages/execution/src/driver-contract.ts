import assert from "node:assert/strict";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Driver, ExecutionError, Program, ProgramSpec } from "./driver.ts";
import { isAlive, readStat } from "./proc.ts";

/*
 * What holds for every driver. Programs of these tests tell that they are ready through a file (`ready`), which the test
 * waits for, so none of them sleeps.
 */

/** What a suite gives each case: a fresh folder and a way to open drivers on it. */
export interface DriverContractSetup {
  readonly dir: string;
  open(): Promise<Driver>;
  /** The number on this machine of a process that program `id` knows as `pid`. Default: the same. */
  outsidePid?(id: string, pid: number): number;
}

/** One rule, with the sentence that says it. */
export interface DriverContractCase {
  readonly title: string;
  run(setup: DriverContractSetup): Promise<void>;
}

const isError = (code: ExecutionError["code"]) => (error: unknown) =>
  typeof error === "object" && error !== null && "code" in error && error.code === code;

const shell = (script: string): ProgramSpec["command"] => ["/bin/sh", "-c", script];

/** Waits until a file has content, and gives it. */
export async function content(path: string): Promise<string> {
  for (;;) {
    const text = await readFile(path, "utf8").catch(() => "");
    if (text.endsWith("\n")) return text.trim();
    await new Promise((resolve) => setImmediate(resolve));
  }
}

async function withDriver(setup: DriverContractSetup, use: (driver: Driver) => Promise<void>): Promise<void> {
  const driver = await setup.open();
  try {
    await use(driver);
  } finally {
    await Promise.all(driver.list().map((program) => program.stop({ graceMs: 0 })));
    await driver.close();
  }
}

const rule = (title: string, use: (driver: Driver, setup: DriverContractSetup) => Promise<void>): DriverContractCase => ({
  title,
  run: (setup) => withDriver(setup, (driver) => use(driver, setup)),
});

async function end(
  driver: Driver,
  spec: Omit<ProgramSpec, "id">,
  id = "a",
): Promise<{ program: Program; out: string; error: string }> {
  const program = await driver.start({ ...spec, id });
  await program.exited();
  return { program, out: readFileSync(program.logs.stdout, "utf8"), error: readFileSync(program.logs.stderr, "utf8") };
}

const exitOf = async (driver: Driver, spec: Omit<ProgramSpec, "id">) => (await end(driver, spec)).program.exited();

/** The rules. Each takes a fresh folder. */
export const driverContract: readonly DriverContractCase[] = [
  rule("a program that exits with 0 is Completed and its output is in its logs", async (driver) => {
    const { program, out, error } = await end(driver, { command: shell("echo out; echo error >&2") });
    const exited = await program.exited();
    assert.equal(exited.reason, "Completed");
    assert.equal(exited.exitCode, 0);
    assert.deepEqual([out, error], ["out\n", "error\n"]);
    assert.ok(exited.startedAt !== undefined && exited.startedAt <= exited.finishedAt);
  }),
  rule("a program's exit code is kept", async (driver) => {
    const exited = await exitOf(driver, { command: shell("exit 7") });
    assert.deepEqual([exited.reason, exited.exitCode, exited.signal], ["Error", 7, undefined]);
  }),
  rule("a signal from elsewhere is an Error with 128 + n", async (driver) => {
    const exited = await exitOf(driver, { command: shell("kill -KILL $$") });
    assert.deepEqual([exited.reason, exited.exitCode, exited.signal], ["Error", 137, 9]);
  }),
  rule("a program that exits with 127 by itself is an Error, not a StartFailed", async (driver) => {
    const exited = await exitOf(driver, { command: shell("exit 127") });
    assert.deepEqual([exited.reason, exited.exitCode], ["Error", 127]);
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
  rule("arguments reach the program as they are", async (driver) => {
    const words = ["a b", "", "$HOME", "`id`", "'\"", "-n", "*", "\n", "ü"];
    const { out } = await end(driver, { command: [...shell('for word; do printf "<%s>" "$word"; done'), "name", ...words] });
    assert.equal(out, words.map((word) => `<${word}>`).join(""));
  }),
  rule("the environment is the spec's and nothing of the supervisor's", async (driver) => {
    process.env.KEELSON_SECRET = "leak";
    const env = { A: "1 2", "dotted.name": "x", PATH: "/usr/bin:/bin" };
    const { out } = await end(driver, { command: ["env"], env });
    delete process.env.KEELSON_SECRET;
    const lines = out.split("\n").filter((line) => line !== "" && !/^(KEELSON_PROGRAM|PWD)=/.test(line));
    assert.deepEqual(lines.sort(), ["A=1 2", "PATH=/usr/bin:/bin", "dotted.name=x"]);
  }),
  rule("without a cwd it runs in a work folder of its own", async (driver) => {
    const { program, out } = await end(driver, { command: ["pwd"] });
    assert.equal(out.trim(), join(program.logs.stdout, "..", "work"));
  }),
  rule("it has no file of the supervisor open", async (driver) => {
    const { out } = await end(driver, {
      command: shell("for fd in 3 4 5 6 7 8 9; do [ -e /proc/$$/fd/$fd ] && echo $fd; done; true"),
    });
    assert.equal(out, "");
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
  rule("stop ends a program with its signal, and is idempotent", async (driver) => {
    const program = await driver.start({ id: "a", command: ["sleep", "600"] });
    const [first, second] = await Promise.all([program.stop(), program.stop()]);
    assert.deepEqual([first.reason, first.exitCode, first.signal], ["Stopped", 143, 15]);
    assert.deepEqual(second, first);
    assert.deepEqual(await program.stop(), first);
  }),
  rule("stop uses the spec's signal", async (driver, { dir }) => {
    const ready = join(dir, "a", "work", "ready");
    const script = 'trap "exit 5" INT; echo ready >ready; while :; do sleep 0.05; done';
    const program = await driver.start({ id: "a", command: shell(script), killSignal: "SIGINT" });
    await content(ready);
    const exited = await program.stop();
    assert.deepEqual([exited.reason, exited.exitCode], ["Stopped", 5]);
  }),
  rule("a program that ignores the signal is killed after the grace", async (driver, { dir }) => {
    const script = 'trap "" TERM; echo ready >ready; while :; do sleep 600; done';
    const program = await driver.start({ id: "a", command: shell(script), killGraceMs: 60 });
    await content(join(dir, "a", "work", "ready"));
    const exited = await program.stop();
    assert.deepEqual([exited.reason, exited.exitCode], ["Stopped", 137]);
  }),
  rule(
    "stop leaves nothing of a tree: children, a session of its own, a double fork without parents",
    async (driver, setup) => {
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
    },
  ),
  rule("what a program leaves behind ends with it", async (driver, { dir, outsidePid }) => {
    const script = "(setsid sh -c 'echo $$ >left; exec sleep 600' &); while ! [ -s left ]; do :; done; exit 3";
    const exited = await exitOf(driver, { command: shell(script) });
    const inside = Number(await content(join(dir, "a", "work", "left")));
    const pid = outsidePid?.("a", inside) ?? inside;
    assert.equal(exited.exitCode, 3);
    assert.ok(!isAlive(pid, readStat(pid)?.startTime ?? -1));
  }),
  rule("a timeout ends a program and says so", async (driver) => {
    const exited = await exitOf(driver, { command: ["sleep", "600"], timeoutMs: 80 });
    assert.deepEqual([exited.reason, exited.exitCode, exited.signal], ["Timeout", 143, 15]);
    assert.match(exited.message, /80 ms/);
  }),
  rule("a timeout kills what ignores the signal, grandchildren too", async (driver) => {
    const script = "trap '' TERM; (setsid sh -c 'trap \"\" TERM; sleep 600' &); while :; do sleep 600; done";
    const exited = await exitOf(driver, { command: shell(script), timeoutMs: 80, killGraceMs: 40 });
    assert.deepEqual([exited.reason, exited.exitCode, exited.signal], ["Timeout", 137, 9]);
  }),
  rule("signal reaches the program", async (driver, { dir }) => {
    const script = 'trap "echo got >got" USR1; echo ready >ready; while ! [ -s got ]; do sleep 0.05; done; exit 4';
    const program = await driver.start({ id: "a", command: shell(script) });
    await content(join(dir, "a", "work", "ready"));
    program.signal("SIGUSR1");
    assert.equal((await program.exited()).exitCode, 4);
  }),
  rule("a paused program can be stopped", async (driver) => {
    const program = await driver.start({ id: "a", command: ["sleep", "600"] });
    program.signal("SIGSTOP");
    assert.equal((await program.stop({ graceMs: 50 })).reason, "Stopped");
  }),
  rule("stats count a program's processes and memory", async (driver, { dir }) => {
    const program = await driver.start({ id: "a", command: shell("sleep 600 & echo ready >ready; wait") });
    await content(join(dir, "a", "work", "ready"));
    const stats = await program.stats();
    assert.equal(stats.pids, 2);
    assert.ok(stats.memoryBytes > 0);
  }),
  rule("a log that floods is rotated, and the disk holds a small multiple of its limit", async (driver) => {
    const logRotation = { maxBytes: 1 << 20, maxFiles: 2 };
    const program = await driver.start({
      id: "a",
      command: shell("while :; do echo 0123456789012345678901234567890; done"),
      logRotation,
    });
    const size = (path: string) =>
      stat(path).then(
        (file) => file.size,
        () => 0,
      );
    let largest = 0;
    for (let rotations = 0, seen = 0; rotations < 5; ) {
      const file = await stat(`${program.logs.stdout}.1`).catch(() => undefined);
      largest = Math.max(largest, (await size(program.logs.stdout)) + (file?.size ?? 0));
      if (file !== undefined && file.mtimeMs !== seen) {
        seen = file.mtimeMs;
        rotations++;
      }
      await new Promise((resolve) => setImmediate(resolve));
    }
    // Without rotation it grows without end; how far it gets between two looks is the machine's matter.
    assert.ok(largest < 32 * logRotation.maxBytes, `${largest} bytes on the disk`);
    await assert.rejects(stat(`${program.logs.stdout}.2`));
  }),
  {
    title: "a second driver on the folder is refused and names the process that has it",
    run: (setup) =>
      withDriver(setup, async () => {
        await assert.rejects(
          setup.open(),
          (error) => isError("FolderInUse")(error) && String(error).includes(String(process.pid)),
        );
      }),
  },
  {
    title: "programs outlive close, and the next driver supervises them",
    async run(setup) {
      const first = await setup.open();
      const gate = join(setup.dir, "a", "work", "gate");
      const script = "echo ready >ready; while ! [ -e gate ]; do sleep 0.02; done; exit 7";
      const before = await first.start({ id: "a", command: shell(script), metadata: { owner: "x" } });
      await content(join(setup.dir, "a", "work", "ready"));
      await first.close();
      await withDriver(setup, async (driver) => {
        const program = driver.get("a");
        assert.deepEqual(program?.state, before.state);
        assert.deepEqual(program?.spec.metadata, { owner: "x" });
        writeFileSync(gate, "");
        const exited = await program?.exited();
        assert.deepEqual([exited?.reason, exited?.exitCode], ["Error", 7]);
      });
    },
  },
  {
    title: "a program that ended while nobody supervised is known with its exit code, again and again",
    async run(setup) {
      const first = await setup.open();
      const work = join(setup.dir, "a", "work");
      await first.start({ id: "a", command: shell("echo $$ >pid; while ! [ -e gate ]; do sleep 0.02; done; exit 9") });
      const inside = Number(await content(join(work, "pid")));
      const pid = setup.outsidePid?.("a", inside) ?? inside;
      const startTime = readStat(pid)?.startTime ?? -1;
      await first.close();
      writeFileSync(join(work, "gate"), "");
      while (isAlive(pid, startTime)) await new Promise((resolve) => setImmediate(resolve));
      for (let opened = 0; opened < 2; opened++) {
        await withDriver(setup, async (driver) => {
          const exited = await driver.get("a")?.exited();
          assert.deepEqual([exited?.reason, exited?.exitCode], ["Error", 9]);
        });
      }
    },
  },
  {
    title: "a timeout holds for the next driver, and counts from the start",
    async run(setup) {
      const first = await setup.open();
      await first.start({ id: "a", command: ["sleep", "600"], timeoutMs: 100 });
      await first.close();
      await withDriver(setup, async (driver) => {
        const exited = await driver.get("a")?.exited();
        assert.deepEqual([exited?.reason, exited?.exitCode], ["Timeout", 143]);
      });
    },
  },
  {
    title: "an adopted program can be stopped",
    async run(setup) {
      const first = await setup.open();
      await first.start({ id: "a", command: ["sleep", "600"] });
      await first.close();
      await withDriver(setup, async (driver) => {
        const exited = await driver.get("a")?.stop();
        assert.deepEqual([exited?.reason, exited?.exitCode], ["Stopped", 143]);
      });
    },
  },
  ...["spec.json", "state.json"].map(
    (file): DriverContractCase => ({
      title: `a damaged ${file} is put aside, the program is Lost, and nothing of it runs`,
      async run(setup) {
        const first = await setup.open();
        const program = await first.start({ id: "a", command: shell("echo $$ >pid; exec sleep 600") });
        await first.start({ id: "b", command: ["true"] });
        const inside = Number(await content(join(setup.dir, "a", "work", "pid")));
        const pid = setup.outsidePid?.("a", inside) ?? inside;
        const startTime = readStat(pid)?.startTime ?? -1;
        await first.close();
        writeFileSync(join(setup.dir, "a", file), '{"id": "a", "comm');
        await withDriver(setup, async (driver) => {
          const exited = await driver.get("a")?.exited();
          assert.equal(exited?.reason, "Lost");
          assert.match(exited?.message ?? "", /damaged/);
          assert.ok(!isAlive(pid, startTime));
          assert.ok((await stat(join(setup.dir, "a", `${file}.damaged`))).size > 0);
          assert.equal((await driver.get("b")?.exited())?.reason, "Completed");
        });
        assert.equal(program.id, "a");
      },
    }),
  ),
  {
    title: "a folder without a spec was never started and goes",
    async run(setup) {
      await mkdir(join(setup.dir, "half"), { recursive: true });
      await withDriver(setup, async (driver) => {
        assert.deepEqual(driver.list(), []);
        rmSync(join(setup.dir, "half"), { recursive: true, force: true });
        await end(driver, { command: ["true"] }, "half");
      });
    },
  },
];
