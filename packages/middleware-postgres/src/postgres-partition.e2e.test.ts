import { execFile } from "node:child_process";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { partitionScenario } from "./testing/partition-scenario.ts";
import { installUnsyncedPrograms } from "./testing/unsynced-programs.ts";

/** What happened in one mode. Times are relative to the partition, in milliseconds. */
interface Seen {
  readonly acknowledged: number;
  /** When the acknowledged rows that the new primary does not have were acknowledged. */
  readonly lost: readonly number[];
  /** The last acknowledgement of the separated primary, and the first one of its successor. */
  readonly lastOfOld: number;
  readonly firstOfNew: number;
  readonly primaries: number;
}

let folder: string;
let seen: Readonly<Record<"synchronous" | "asynchronous", Seen>>;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "pg-partition-"));
  await chmod(folder, 0o755);
  const program = await installUnsyncedPrograms(join(folder, "programs"));
  // All its processes end with it.
  const namespaces = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];
  const prepared = ["sh", "-c", 'mkdir -p /run/netns && mount -t tmpfs none /run/netns && exec "$@"', "sh"];
  const command = [process.execPath, "--input-type=module", "-e", partitionScenario, folder, program];
  const options = { timeout: 580_000, maxBuffer: 16 * 1_048_576 };
  const { stdout } = await promisify(execFile)("unshare", [...namespaces, ...prepared, ...command], options);
  seen = JSON.parse(stdout) as typeof seen;
}, 600_000);
afterAll(() => rm(folder, { recursive: true, force: true }));

describe("a primary that is separated from the majority", () => {
  it.each(["synchronous", "asynchronous"] as const)("acknowledges nothing after its successor has (%s)", (mode) => {
    expect(seen[mode].lastOfOld).toBeLessThan(seen[mode].firstOfNew);
    expect(seen[mode].primaries).toBe(1);
  });

  it("loses no acknowledged commit with synchronous replicas, and acknowledges none without them", () => {
    expect(seen.synchronous.acknowledged).toBeGreaterThan(100);
    expect(seen.synchronous.lost).toEqual([]);
  });

  it("loses only what it acknowledged while it was separated without synchronous replicas", () => {
    expect(seen.asynchronous.lost.filter((at) => at <= 0)).toEqual([]);
  });
});
