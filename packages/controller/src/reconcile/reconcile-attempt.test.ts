import { createVirtualClock } from "@keelson/api-machinery/testing";
import { createClient } from "@keelson/client";
import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import { silentLogger } from "../logging/logger.ts";
import { Attempt } from "./reconcile-attempt.ts";
import { defineController } from "./define-controller.ts";
import { SharedCache } from "../cache/shared-cache.ts";
import { FakeApiServer } from "../testing/fake-api-server.ts";
import { robotType } from "../testing/kinds.ts";

test("an ended attempt leaves no timer and no listener behind", () => {
  const clock = createVirtualClock();
  const client = createClient({ transport: new FakeApiServer(), fieldManager: "test", clock });
  const stop = new AbortController();
  const attempts = [1, 2, 3].map(
    () =>
      new Attempt({
        definition: defineController({ name: "r", for: robotType, reconcileTimeoutMs: 1_000, reconcile: async () => {} }),
        cache: new SharedCache({ client, clock, random: () => 0, log: silentLogger }),
        ...{ client, clock, log: silentLogger, events: { event: () => {} }, isTraced: false, hooks: () => ({}) },
        request: { namespace: "a", name: "r" },
        stop: stop.signal,
      }),
  );
  expect([clock.pendingTimers, getEventListeners(stop.signal, "abort").length]).toEqual([3, 3]);
  for (const attempt of attempts) attempt.end();
  expect([clock.pendingTimers, getEventListeners(stop.signal, "abort").length]).toEqual([0, 0]);
});

test("a controller may spread the context", () => {
  const clock = createVirtualClock();
  const client = createClient({ transport: new FakeApiServer(), fieldManager: "test", clock });
  const attempt = new Attempt({
    definition: defineController({ name: "r", for: robotType, reconcile: async () => {} }),
    cache: new SharedCache({ client, clock, random: () => 0, log: silentLogger }),
    ...{ client, clock, log: silentLogger, events: { event: () => {} }, isTraced: false, hooks: () => ({}) },
    request: { namespace: "a", name: "r" },
    stop: new AbortController().signal,
  });
  const context = { ...attempt.context() };
  expect(Object.keys(context).sort()).toEqual(["cache", "client", "clock", "events", "log", "signal"]);
  expect(Object.values(context).every((value) => value !== undefined)).toBe(true);
  attempt.end();
});

test("any number of requests may listen to the signal of an attempt", async () => {
  const clock = createVirtualClock();
  const client = createClient({ transport: new FakeApiServer(), fieldManager: "test", clock });
  const attempt = new Attempt({
    definition: defineController({ name: "r", for: robotType, reconcileTimeoutMs: 1_000, reconcile: async () => {} }),
    cache: new SharedCache({ client, clock, random: () => 0, log: silentLogger }),
    ...{ client, clock, log: silentLogger, events: { event: () => {} }, isTraced: false, hooks: () => ({}) },
    request: { namespace: "a", name: "r" },
    stop: new AbortController().signal,
  });
  const warnings: Error[] = [];
  const onWarning = (warning: Error): void => void warnings.push(warning);
  process.on("warning", onWarning);
  for (let index = 0; index < 20; index++) attempt.signal.addEventListener("abort", () => index);
  await new Promise((resolve) => setImmediate(resolve));
  process.off("warning", onWarning);
  attempt.end();
  expect(warnings).toEqual([]);
});
