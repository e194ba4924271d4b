import { describe, expect, test } from "vitest";
import { CommandStarts } from "./command-starts.ts";

const never = new Promise<void>(() => {});

describe("CommandStarts", () => {
  test("starts four commands of a container at a time, in the order of the requests", async () => {
    const starts = new CommandStarts();
    const started: number[] = [];
    const releases: (() => void)[] = [];
    const all = Array.from({ length: 6 }, (_, index) =>
      starts.run("a/pod/c", never, async () => {
        started.push(index);
        await new Promise<void>((resolve) => releases.push(resolve));
      }),
    );
    await expect.poll(() => started).toEqual([0, 1, 2, 3]);
    releases.shift()?.();
    await expect.poll(() => started).toEqual([0, 1, 2, 3, 4]);
    for (const release of releases.splice(0)) release();
    await expect.poll(() => started).toEqual([0, 1, 2, 3, 4, 5]);
    for (const release of releases.splice(0)) release();
    await Promise.all(all);
  });

  test("does not start the command of a client that has disconnected", async () => {
    const starts = new CommandStarts();
    let isStarted = false;
    const result = await starts.run("a/pod/c", Promise.resolve(), async () => {
      isStarted = true;
    });
    expect(result).toBeUndefined();
    expect(isStarted).toBe(false);
  });

  test("lets other containers start in the meantime, and passes on the turn of a start that failed", async () => {
    const starts = new CommandStarts();
    const fail = (): Promise<void> => Promise.reject(new TypeError("no program"));
    const failed = Promise.allSettled(Array.from({ length: 8 }, () => starts.run("a/pod/c", never, fail)));
    expect(await starts.run("b/pod/c", never, () => Promise.resolve("started"))).toBe("started");
    expect((await failed).map(({ status }) => status)).toEqual(Array.from({ length: 8 }, () => "rejected"));
    expect(await starts.run("a/pod/c", never, () => Promise.resolve("started"))).toBe("started");
  });
});
