import { EventEmitter } from "node:events";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { type Logger, silentLogger } from "@keelson/controller";
import { expect, it } from "vitest";
import { FolderWatch } from "./folder-watch.ts";

/** A watch that the test ends. */
class FakeWatcher extends EventEmitter {
  isClosed = false;
  close(): void {
    this.isClosed = true;
  }
}

it("reports a watch that fails, and repeats it with backoff until it succeeds or is closed", async () => {
  const clock = createVirtualClock(0);
  const delays: unknown[] = [];
  const log: Logger = {
    ...silentLogger,
    warn: (fields: object) => void delays.push((fields as { retryMs?: unknown }).retryMs),
  };
  const watchers: FakeWatcher[] = [];
  let changes = 0;
  let isFull = true;
  const watchFolder = (): FakeWatcher => {
    if (isFull) throw new Error("ENOSPC: too many watches");
    const watcher = new FakeWatcher();
    watchers.push(watcher);
    return watcher;
  };
  const watch = new FolderWatch("/certificates", () => void (changes += 1), { clock, log, watchFolder });
  await clock.advance(200_000);
  expect(delays).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000]);
  expect(changes).toBe(8);
  isFull = false;
  await clock.advance(60_000);
  expect([watchers.length, changes]).toEqual([1, 9]);
  watchers[0]?.emit("error", new Error("EIO"));
  expect(watchers[0]?.isClosed).toBe(true);
  await clock.advance(60_000);
  expect([watchers.length, changes]).toEqual([2, 10]);
  watch.close();
  watchers[1]?.emit("error", new Error("EIO"));
  await clock.advance(60_000);
  expect([watchers.length, changes, watchers[1]?.isClosed]).toEqual([2, 10, true]);
});
