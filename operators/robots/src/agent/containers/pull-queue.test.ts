import { createDeferred } from "@keelson/api-machinery/deferred";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { expect, test } from "vitest";
import { settledOrAborted } from "../files/settled-or-aborted.ts";
import { PullQueue } from "./pull-queue.ts";

const never = new AbortController().signal;

/** A pull from a registry that does not respond. */
const stalled = (signal: AbortSignal): Promise<void> => settledOrAborted(createDeferred<void>().promise, signal);

function queueOf() {
  const clock = createVirtualClock(0);
  return { clock, queue: new PullQueue({ clock, timeoutMs: 1_000 }) };
}

test("pulls one image after the other, even after one that failed", async () => {
  const { queue } = queueOf();
  const gate = createDeferred<void>();
  const log: string[] = [];
  const first = queue.run("a", never, async () => {
    log.push("first");
    await gate.promise;
    log.push("first ends");
    throw new Error("no such image");
  });
  const second = queue.run("b", never, async () => log.push("second"));
  gate.resolve();
  await expect(first).rejects.toThrow("no such image");
  await second;
  expect(log).toEqual(["first", "first ends", "second"]);
});

test("a wait ends with its signal, and those behind it keep waiting for the pull before it", async () => {
  const { queue } = queueOf();
  const gate = createDeferred<void>();
  const log: string[] = [];
  const first = queue.run("a", never, () => gate.promise.then(() => log.push("first")));
  const deleted = new AbortController();
  const second = queue.run("b", deleted.signal, async () => log.push("second"));
  const third = queue.run("c", never, async () => log.push("third"));
  deleted.abort(new Error("the task was deleted"));
  await expect(second).rejects.toThrow("the task was deleted");
  expect(log).toEqual([]);
  gate.resolve();
  await Promise.all([first, third]);
  expect(log).toEqual(["first", "third"]);
});

test("a stalled pull ends when its time is over, and the next one has all of its own", async () => {
  const { clock, queue } = queueOf();
  const first = queue.run("a", never, stalled);
  const second = queue.run("b", never, stalled);
  const ends = Promise.allSettled([first, second]);
  await clock.advance(999);
  await clock.advance(1);
  await expect(first).rejects.toMatchObject({
    code: "Unavailable",
    message: expect.stringContaining("image a: not pulled within"),
  });
  let hasEnded = false;
  void second.catch(() => (hasEnded = true));
  await clock.advance(999);
  expect(hasEnded).toBe(false);
  await clock.advance(1);
  await expect(second).rejects.toThrow("image b: not pulled within");
  await ends;
});

test("a pull ends with its signal, and its timer is cancelled", async () => {
  const { clock, queue } = queueOf();
  const deleted = new AbortController();
  const pull = queue.run("a", deleted.signal, stalled);
  deleted.abort(new Error("the task was deleted"));
  await expect(pull).rejects.toThrow("the task was deleted");
  expect(await queue.run("b", never, async () => "pulled")).toBe("pulled");
  expect(clock.pendingTimers).toBe(0);
});
