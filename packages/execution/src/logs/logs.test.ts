import { mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { expect, test } from "vitest";
import { Deadlines } from "../program/deadlines.ts";
import { watchLogs } from "./log-rotation.ts";
import { LogRotations, rotateIfLarge } from "./rotate-log.ts";
import { readLogTail } from "./log-tail.ts";

function inFolder<T>(use: (folder: string) => T): T {
  const folder = mkdtempSync(join(tmpdir(), "keelson-files-"));
  const clean = (): void => rmSync(folder, { recursive: true, force: true });
  const result = use(folder);
  if (result instanceof Promise) return result.finally(clean) as T;
  clean();
  return result;
}

test("rotates a log above its limit, keeps its end, and keeps no more files than allowed", async () => {
  await inFolder(async (folder) => {
    const log = join(folder, "stdout.log");
    for (const content of ["1".repeat(11), "2".repeat(11), `x${"3".repeat(29)}`, "4"]) {
      writeFileSync(log, content);
      expect(await rotateIfLarge(log, { maxBytes: 10, maxFiles: 3 })).toBe(content.length > 10);
    }
    expect(readFileSync(log, "utf8")).toBe("4");
    expect(readFileSync(`${log}.1`, "utf8")).toBe("3".repeat(10));
    expect(readFileSync(`${log}.2`, "utf8")).toBe("2".repeat(10));
    expect(() => readFileSync(`${log}.3`)).toThrow("ENOENT");
  });
});

test("reads the tail of a log across the rotated file and starts at a whole character", async () => {
  await inFolder(async (folder) => {
    const log = join(folder, "stdout.log");
    writeFileSync(`${log}.1`, "12€");
    writeFileSync(log, "345");
    expect(await readLogTail(log, 100)).toBe("12€345");
    expect(await readLogTail(log, 6)).toBe("€345");
    expect(await readLogTail(log, 5)).toBe("345");
    expect(await readLogTail(join(folder, "none"), 5)).toBe("");
  });
});

test("rotates logs one after another, even after one that fails", async () => {
  const running: string[] = [];
  const gates = new Map<string, (error?: Error) => void>();
  const rotations = new LogRotations((path) => {
    running.push(path);
    return new Promise((resolve, reject) => {
      gates.set(path, (error) => {
        running.splice(running.indexOf(path), 1);
        if (error === undefined) resolve(true);
        else reject(error);
      });
    });
  });
  const policy = { maxBytes: 1, maxFiles: 1 };
  const [first, second] = ["a", "b"].map((path) => rotations.rotate(path, policy));
  await expect.poll(() => running).toEqual(["a"]);
  gates.get("a")?.(new Error("removed"));
  await expect(first).rejects.toThrow("removed");
  await expect.poll(() => running).toEqual(["b"]);
  gates.get("b")?.();
  expect(await second).toBe(true);
});

test("hands a log over its limit to one rotation at a time, and stops when it is closed", async () => {
  await inFolder(async (folder) => {
    const clock = createVirtualClock();
    const log = join(folder, "stdout.log");
    writeFileSync(log, "x".repeat(20));
    let rotating = 0;
    let finish = (): void => {};
    const rotations = {
      rotate: () =>
        new Promise<boolean>((resolve) => {
          rotating++;
          finish = () => {
            truncateSync(log);
            resolve(true);
          };
        }),
    };
    const shared = { deadlines: new Deadlines(clock), rotations, clock };
    const watch = watchLogs([log], { maxBytes: 10, maxFiles: 2 }, shared);
    await clock.advance(2);
    expect(rotating).toBe(1);
    writeFileSync(log, "y".repeat(30));
    await clock.advance(5_000);
    expect(rotating).toBe(1);
    finish();
    await expect
      .poll(() => clock.advance(2).then(() => rotating > 1 || (writeFileSync(log, "z".repeat(30)), false)))
      .toBe(true);
    watch.close();
    const before = rotating;
    finish();
    writeFileSync(log, "z".repeat(40));
    await clock.advance(5_000);
    expect(rotating).toBe(before);
  });
});
