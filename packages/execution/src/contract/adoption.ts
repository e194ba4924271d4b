import assert from "node:assert/strict";
import { rmSync, writeFileSync } from "node:fs";
import { mkdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { isAlive, readStat } from "../process/proc.ts";
import { content, end, isError, shell, withDriver } from "./setup.ts";
import type { DriverContractCase } from "./setup.ts";

/** Rules across a supervisor's restart: locks, adoption, damaged files. */
export const adoptionRules: readonly DriverContractCase[] = [
  {
    title: "rejects a second driver on the directory and names the process that holds it",
    run: (setup) =>
      withDriver(setup, async () => {
        await assert.rejects(
          setup.open(),
          (error) => isError("FolderInUse")(error) && String(error).includes(String(process.pid)),
        );
      }),
  },
  {
    title: "lets programs outlive close and supervises them with the next driver",
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
    title: "reports the exit code of a program that terminated without a supervisor, repeatedly",
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
    title: "enforces a timeout in the next driver, counted from the start",
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
    title: "stops an adopted program",
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
      title: `quarantines a damaged ${file}, marks the program as Lost and kills it`,
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
    title: "removes a directory without a spec",
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
