import assert from "node:assert/strict";
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { content, end, rule, shell } from "./setup.ts";
import type { DriverContractCase } from "./setup.ts";

/** What programs use, and what limits that: processes, memory, disk. */
export const resourceRules: readonly DriverContractCase[] = [
  rule("a program beyond its memory limit is OOMKilled; where it cannot be limited that is said", async (driver) => {
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
  rule("a program at its limit of processes gets no more of them", async (driver) => {
    const script = "i=0; while [ $i -lt 40 ]; do sleep 600 & i=$((i + 1)); done; echo all";
    const { program, out, error } = await end(driver, { command: shell(script), limits: { pids: 12 } });
    if (program.limits.applied.pids === undefined) assert.equal(out, "all\n");
    else assert.match(error, /fork/i);
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
];
