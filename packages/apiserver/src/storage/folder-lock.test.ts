import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { lockFolder } from "./folder-lock.ts";

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "keelson-lock-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

describe("lockFolder", () => {
  it("admits one owner at a time and names it", () => {
    const release = lockFolder(dir);
    expect(() => lockFolder(dir)).toThrow(`${dir} is in use by process ${process.pid}`);
    release();
    lockFolder(dir)();
  });

  it("replaces the lock of a dead owner, of a recycled pid, and an unreadable one", () => {
    const owners = [
      JSON.stringify({ pid: 2 ** 22 + 1, startTime: "1" }),
      ...(process.platform === "linux" ? [JSON.stringify({ pid: process.pid, startTime: "1" })] : []),
      "{",
      "",
    ];
    for (const owner of owners) {
      writeFileSync(join(dir, "lock"), owner);
      expect(() => lockFolder(dir)()).not.toThrow();
    }
  });
});
