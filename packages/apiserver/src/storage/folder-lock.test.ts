import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Writable } from "node:stream";
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

  it.runIf(process.platform === "linux")("replaces the lock of an owner that has exited and was not reaped", async () => {
    // The shell replaces itself with a program that reaps no children, before its child exits at the end of its input.
    const parent = spawn("sh", ["-c", "cat <&3 & echo $!; exec sleep 600 3<&-"], {
      stdio: ["ignore", "pipe", "ignore", "pipe"],
    });
    try {
      const output = parent.stdout ?? expect.fail("no output");
      const [chunk] = (await once(output, "data")) as [Buffer];
      const pid = Number(chunk.toString());
      const program = (): string => readFileSync(`/proc/${parent.pid}/comm`, "utf8").trim();
      await expect.poll(program, { timeout: 15_000 }).toBe("sleep");
      const input = parent.stdio[3];
      if (input instanceof Writable) input.end();
      const fields = () => /\) (.*)/.exec(readFileSync(`/proc/${pid}/stat`, "utf8"))?.[1]?.split(" ") ?? [];
      await expect.poll(() => fields()[0], { timeout: 15_000 }).toBe("Z");
      writeFileSync(join(dir, "lock"), JSON.stringify({ pid, startTime: fields()[19] }));
      expect(() => lockFolder(dir)()).not.toThrow();
    } finally {
      parent.kill("SIGKILL");
    }
  });
});
