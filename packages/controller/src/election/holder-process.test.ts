import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, expect, test } from "vitest";
import { identifyProcess, linuxProcesses } from "./holder-process.ts";

describe.runIf(process.platform === "linux")("the process that holds a lease", () => {
  test("has exited only after it was killed", async () => {
    const child = spawn("sleep", ["60"], { stdio: "ignore" });
    await once(child, "spawn");
    const id = identifyProcess(child.pid ?? 0) ?? "";
    try {
      expect(linuxProcesses.hasExited(id)).toBe(false);
    } finally {
      const exited = once(child, "exit");
      child.kill("SIGKILL");
      await exited;
    }
    expect(linuxProcesses.hasExited(id)).toBe(true);
  });

  test("this process has not exited", () => {
    const self = linuxProcesses.self() ?? "";
    expect(self).not.toBe("");
    expect(linuxProcesses.hasExited(self)).toBe(false);
  });

  test("another process with the same id is not mistaken for it", () => {
    const [machine, pid] = (linuxProcesses.self() ?? "").split("/");
    expect(linuxProcesses.hasExited(`${machine}/${pid}/1`)).toBe(true);
  });

  test.each(["", "x", "other-machine/999999/1"])("nothing is known about %j", (id) => {
    expect(linuxProcesses.hasExited(id)).toBe(false);
  });
});
