import { closeSync, openSync } from "node:fs";
import { createVirtualClock, type VirtualClock } from "@keelson/api-machinery/testing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Watcher } from "./watcher.ts";

let clock: VirtualClock;
let root: number;
let listeners: Set<() => void>;
let hasEnded: boolean;

const program = {
  onExit: (listener: () => void) => {
    if (hasEnded) queueMicrotask(listener);
    listeners.add(listener);
    return () => void listeners.delete(listener);
  },
};

const start = (script: string): Watcher => new Watcher(program, clock, ["/bin/sh", "-c", script], root);

const endProgram = (): void => {
  hasEnded = true;
  for (const listener of listeners) listener();
};

beforeEach(() => {
  clock = createVirtualClock();
  root = openSync("/", "r");
  listeners = new Set();
  hasEnded = false;
});

afterEach(() => closeSync(root));

describe("the process of a watch", () => {
  it("has failed if it was killed while its sandbox runs", async () => {
    const watcher = start("kill -KILL $$");
    const isExpected = watcher.isExpectedEnd();
    await watcher.closed;
    await clock.advance(60_000);
    expect(await isExpected).toBe(false);
  });

  it("has ended as expected if it was killed before the end of its sandbox was known", async () => {
    const watcher = start("kill -KILL $$");
    const isExpected = watcher.isExpectedEnd();
    await watcher.closed;
    endProgram();
    expect(await isExpected).toBe(true);
  });

  it.each([
    ["exits with 0", "exit 0", true],
    ["exits with another status", "exit 1", false],
  ])("decides by its status when it %s", async (_, script, isExpected) => {
    expect(await start(script).isExpectedEnd()).toBe(isExpected);
  });

  it("ends with its sandbox, and when it is stopped", async () => {
    const [one, other] = [start("exec sleep 600"), start("exec sleep 600")];
    other.stop();
    expect(await other.isExpectedEnd()).toBe(true);
    endProgram();
    expect(await one.isExpectedEnd()).toBe(true);
  });

  it("leaves nothing at its sandbox when it has ended", async () => {
    for (let count = 0; count < 3; count += 1) {
      const watcher = start("kill -KILL $$");
      const isExpected = watcher.isExpectedEnd();
      await watcher.closed;
      await clock.advance(60_000);
      await isExpected;
    }
    expect(listeners.size).toBe(0);
  });
});
