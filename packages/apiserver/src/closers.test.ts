import { expect, test } from "vitest";
import { Closers } from "./closers.ts";

test("closes in reverse order, once", async () => {
  const closers = new Closers();
  const closed: string[] = [];
  closers.add(() => void closed.push("store"));
  closers.use({ close: async () => void closed.push("listener") });
  await closers.close();
  await closers.close();
  expect(closed).toEqual(["listener", "store"]);
});

test("closes nothing early if it is closed twice at the same time", async () => {
  const closers = new Closers();
  const closed: string[] = [];
  let release = (): void => undefined;
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  closers.add(() => void closed.push("store"));
  closers.add(async () => {
    await released;
    closed.push("listener");
  });
  const both = Promise.all([closers.close(), closers.close()]);
  await Promise.resolve();
  expect(closed).toEqual([]);
  release();
  await both;
  expect(closed).toEqual(["listener", "store"]);
});

test("closes the rest if one fails, and reports the first error", async () => {
  const closers = new Closers();
  const closed: string[] = [];
  closers.add(() => void closed.push("store"));
  closers.add(() => Promise.reject(new Error("disk")));
  closers.add(() => {
    throw new Error("listener");
  });
  await expect(closers.close()).rejects.toThrow("listener");
  expect(closed).toEqual(["store"]);
});

test("keeps the reason of a failed start if something also fails to close", async () => {
  const closers = new Closers();
  closers.add(() => Promise.reject(new Error("disk")));
  await closers.abandon();
});
