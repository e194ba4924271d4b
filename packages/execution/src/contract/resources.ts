import assert from "node:assert/strict";
import { stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { attainableScore } from "../process/oom-score.ts";
import { content, end, isError, rule, shell } from "./setup.ts";
import type { DriverContractCase } from "./setup.ts";

/** Resource usage and limits: processes, memory, disk. */
export const resourceRules: readonly DriverContractCase[] = [
  rule("reports OOMKilled above the memory limit, or that the limit is not enforced", async (driver) => {
    const limits = { memoryBytes: 32 << 20 };
    const program = await driver.start({
      id: "a",
      command: shell("x=xxxxxxxxxxxxxxxx; while [ ${#x} -lt 200000000 ]; do x=$x$x; done"),
      limits,
    });
    const exited = await program.exited();
    if (program.limits.applied.memoryBytes === undefined) {
      assert.match(program.limits.message ?? "", /memoryBytes/);
      assert.equal(exited.reason, "Completed");
    } else {
      assert.deepEqual([exited.reason, exited.exitCode], ["OOMKilled", 137]);
    }
  }),
  rule("changes the memory limit of a running program, or reports that it cannot", async (driver, { dir }) => {
    const script = "while [ ! -e go ]; do sleep 0.1; done; x=xxxxxxxxxxxxxxxx; while [ ${#x} -lt 200000000 ]; do x=$x$x; done";
    const program = await driver.start({ id: "a", command: shell(script) });
    const problem = await program.setLimits({ memoryBytes: 32 << 20, cpuMillis: 900 }).then(
      () => undefined,
      (error: unknown) => {
        assert.ok(isError("Unsupported")(error), String(error));
        return error;
      },
    );
    await writeFile(join(dir, "a", "work", "go"), "");
    const exited = await program.exited();
    if (problem === undefined) {
      assert.deepEqual(program.limits.applied, { memoryBytes: 32 << 20, cpuMillis: 900 });
      assert.deepEqual([exited.reason, exited.exitCode], ["OOMKilled", 137]);
    } else {
      assert.equal(exited.reason, "Completed");
    }
    await assert.rejects(program.setLimits({ cpuMillis: 100 }), isError("NotRunning"));
  }),
  rule("adjusts the score by which the kernel kills a program and commands alongside it", async (driver, { dir }) => {
    // Only root may lower it, and not in most containers.
    for (const oomScoreAdjustment of [attainableScore(-500), 600]) {
      const id = `score${oomScoreAdjustment}`;
      const script = "cat /proc/self/oom_score_adj >score; exec sleep 600";
      const program = await driver.start({ id, command: shell(script), oomScoreAdjustment });
      assert.equal(await content(join(dir, id, "work", "score")), String(oomScoreAdjustment));
      const beside = await program.exec({ command: ["cat", "/proc/self/oom_score_adj"] });
      assert.equal((await text(beside.stdout)).trim(), String(oomScoreAdjustment));
    }
  }),
  rule("refuses a memory limit below the current usage", async (driver, { dir }) => {
    const limits = { memoryBytes: 256 << 20 };
    const script = "x=xxxxxxxxxxxxxxxx; while [ ${#x} -lt 8000000 ]; do x=$x$x; done; echo ready >ready; sleep 600";
    const program = await driver.start({ id: "a", command: shell(script), limits });
    await content(join(dir, "a", "work", "ready"));
    const code = program.limits.applied.memoryBytes === undefined ? "Unsupported" : "InUse";
    await assert.rejects(program.setLimits({ memoryBytes: 1 << 20 }), isError(code));
    assert.equal(program.limits.applied.memoryBytes, code === "InUse" ? limits.memoryBytes : undefined);
    assert.equal(program.state.kind, "running");
  }),
  rule("denies forks at the process limit", async (driver) => {
    const script = "i=0; while [ $i -lt 40 ]; do sleep 600 & i=$((i + 1)); done; echo all";
    const { program, out, error } = await end(driver, { command: shell(script), limits: { pids: 12 } });
    if (program.limits.applied.pids === undefined) assert.equal(out, "all\n");
    else assert.match(error, /fork/i);
  }),
  rule("counts a program's processes and memory", async (driver, { dir }) => {
    const program = await driver.start({ id: "a", command: shell("sleep 600 & echo ready >ready; wait") });
    await content(join(dir, "a", "work", "ready"));
    const stats = await program.stats();
    assert.equal(stats.pids, 2);
    assert.ok(stats.memoryBytes > 0);
  }),
  rule("rotates a flooding log and bounds its size on disk", async (driver) => {
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
    let maxSize = 0;
    for (let rotations = 0, seen = 0; rotations < 5; ) {
      const file = await stat(`${program.logs.stdout}.1`).catch(() => undefined);
      maxSize = Math.max(maxSize, (await size(program.logs.stdout)) + (file?.size ?? 0));
      if (file !== undefined && file.mtimeMs !== seen) {
        seen = file.mtimeMs;
        rotations++;
      }
      await new Promise((resolve) => setImmediate(resolve));
    }
    // Without rotation it grows without bound; how far it gets between two checks depends on the machine.
    assert.ok(maxSize < 32 * logRotation.maxBytes, `${maxSize} bytes on the disk`);
    await assert.rejects(stat(`${program.logs.stdout}.2`));
  }),
];
