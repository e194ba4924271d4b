import { systemClock } from "@keelson/api-machinery/time";
import { silentLogger } from "@keelson/controller";
import { expect, test } from "vitest";
import { KeyedWorkers } from "./keyed-workers.ts";

test("a key that adds itself endlessly leaves the event loop to others and is slowed down", async () => {
  let runs = 0;
  const workers: KeyedWorkers = new KeyedWorkers({
    clock: systemClock,
    random: Math.random,
    log: silentLogger,
    concurrency: 1,
    work: (key) => {
      runs += 1;
      workers.add(key);
      return Promise.resolve();
    },
  });
  workers.add("circle");
  const startedAt = systemClock.monotonic();
  await new Promise<void>((resolve) => void systemClock.setTimer(300, resolve));
  expect(systemClock.monotonic() - startedAt).toBeLessThan(3_000);
  expect(runs).toBeGreaterThan(10);
  expect(runs).toBeLessThan(120);
  await workers.stop();
});
