import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createDeferred } from "@keelson/api-machinery/deferred";
import type { Exited } from "@keelson/execution";
import { afterEach, beforeEach, expect, test } from "vitest";
import { LogChanges } from "./log-changes.ts";

let folder: string;
let log: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "keelson-log-changes-"));
  log = join(folder, "stdout.log");
  writeFileSync(log, "");
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test("subscribes to the end of the program once, however often the log grows", async () => {
  let subscriptions = 0;
  const { promise, resolve } = createDeferred<Exited>();
  const counted = Object.assign(promise, {
    // oxlint-disable-next-line unicorn/no-thenable -- counts who waits for the program
    then: ((...handlers: Parameters<typeof promise.then>) => {
      subscriptions++;
      return Promise.prototype.then.apply(promise, handlers);
    }) as typeof promise.then,
  });
  using changes = new LogChanges(log, { exited: () => counted }, undefined);
  for (const text of ["a", "b", "c"]) {
    const waiter = changes.listen();
    writeFileSync(log, text);
    await waiter.changed;
    waiter.close();
  }
  expect(subscriptions).toBe(1);
  const last = changes.listen();
  resolve({ kind: "exited", exitCode: 0, reason: "Completed", message: "", finishedAt: 0 });
  await last.changed;
  last.close();
  await changes.listen().changed;
});

test("ends a wait when the reader has gone", async () => {
  const reader = new AbortController();
  using changes = new LogChanges(log, { exited: () => new Promise<Exited>(() => {}) }, reader.signal);
  const waiter = changes.listen();
  reader.abort();
  await waiter.changed;
  waiter.close();
  await changes.listen().changed;
});
