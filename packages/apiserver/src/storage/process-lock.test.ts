import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { lockFolder } from "./process-lock.ts";

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "keelson-lock-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

describe("lockFolder", () => {
  it("lets one in at a time and says who it is", () => {
    const release = lockFolder(dir);
    expect(() => lockFolder(dir)).toThrow(`${dir} is in use by process ${process.pid}`);
    release();
    lockFolder(dir)();
  });

  it("takes over from an owner that is dead, from another process under its pid, and from rubbish", () => {
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
