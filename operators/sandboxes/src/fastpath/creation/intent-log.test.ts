import { copyFileSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Sandbox } from "../../api/sandbox.ts";
import { type Intent, IntentLog } from "./intent-log.ts";

let dir: string;
let path: string;

const intent = (id: number): Intent => ({
  sandboxId: String(id).padStart(32, "0"),
  namespace: "default",
  name: `s${id}`,
  agent: "a",
  node: "n",
  spec: { image: "host", poolRef: "pool" } as Sandbox["spec"],
  labels: {},
  at: 1,
});

/** What a process finds that starts now, whatever the one that has the log still does. */
async function found(): Promise<readonly string[]> {
  copyFileSync(path, `${path}.copy`);
  const log = await IntentLog.open(`${path}.copy`);
  await log.close();
  return log.pending.map((each) => each.name);
}

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "intent-log-"));
  path = join(dir, "intents");
});

afterEach(() => rmSync(dir, { recursive: true, force: true }));

describe("the log of intents", () => {
  it("persists intents, and removes finished ones with the next intent or on close", async () => {
    const log = await IntentLog.open(path);
    await Promise.all([log.write(intent(1)), log.write(intent(2))]);
    expect(await found()).toEqual(["s1", "s2"]);
    log.finish(intent(1).sandboxId);
    await log.write(intent(3));
    expect(await found()).toEqual(["s2", "s3"]);
    log.finish(intent(2).sandboxId);
    await log.close();
    expect(await found()).toEqual(["s3"]);
  });

  it("removes an intent that was written again while it was finished", async () => {
    const log = await IntentLog.open(path);
    await log.write(intent(1));
    const earlier = log.write(intent(2));
    // Waits for the earlier one, so that the mark that it is finished is written before it.
    const deleted = log.write({ ...intent(1), isDeleted: true });
    log.finish(intent(1).sandboxId);
    await Promise.all([earlier, deleted]);
    log.finish(intent(1).sandboxId);
    await log.write(intent(3));
    expect(await found()).toEqual(["s2", "s3"]);
    await log.close();
  });

  it("drops a line truncated by a crash and keeps those before it", async () => {
    const log = await IntentLog.open(path);
    await log.write(intent(1));
    await log.close();
    const text = readFileSync(path, "utf8");
    writeFileSync(path, text + text.slice(0, 40));
    expect(await found()).toEqual(["s1"]);
  });

  it("stays small and keeps unfinished intents, however many were finished", async () => {
    const most = 4096;
    const log = await IntentLog.open(path, most);
    await log.write(intent(0));
    for (let id = 1; id <= 200; id++) {
      await log.write(intent(id));
      log.finish(intent(id).sandboxId);
    }
    expect(statSync(path).size).toBeLessThan(2 * most);
    expect((await found())[0]).toBe("s0");
    await log.close();
    expect(await found()).toEqual(["s0"]);
  });
});
