import { describe, expect, it } from "vitest";
import { completeRestartPolicy, decideRestart } from "./restart-policy.ts";

const policy = { attempts: 2, interval: "1m", delay: "10s", mode: "fail" } as const;
const never = { windowStartMs: undefined, restartsInWindow: 0 };

describe("decideRestart", () => {
  it("does not restart a task without a policy or with 0 attempts", () => {
    expect(decideRestart(undefined, never, 0)).toMatchObject({ kind: "fail" });
    expect(decideRestart({ ...policy, attempts: 0 }, never, 0)).toMatchObject({ kind: "fail" });
    expect(decideRestart({ ...policy, attempts: 0, mode: "delay" }, never, 0)).toMatchObject({ kind: "fail" });
  });

  it("restarts after the delay, up to attempts times within the interval", () => {
    const first = decideRestart(policy, never, 1000);
    expect(first).toEqual({ kind: "restart", atMs: 11_000, windowStartMs: 1000, restartsInWindow: 1 });
    const second = decideRestart(policy, { windowStartMs: 1000, restartsInWindow: 1 }, 20_000);
    expect(second).toEqual({ kind: "restart", atMs: 30_000, windowStartMs: 1000, restartsInWindow: 2 });
    expect(decideRestart(policy, { windowStartMs: 1000, restartsInWindow: 2 }, 40_000)).toMatchObject({ kind: "fail" });
  });

  it("counts from zero when the interval is over", () => {
    expect(decideRestart(policy, { windowStartMs: 1000, restartsInWindow: 2 }, 61_000)).toEqual({
      kind: "restart",
      atMs: 71_000,
      windowStartMs: 61_000,
      restartsInWindow: 1,
    });
  });

  it("waits for the next interval in mode delay", () => {
    expect(decideRestart({ ...policy, mode: "delay" }, { windowStartMs: 1000, restartsInWindow: 2 }, 40_000)).toEqual({
      kind: "restart",
      atMs: 61_000,
      windowStartMs: 61_000,
      restartsInWindow: 1,
    });
  });

  it("waits for the delay too if the next interval begins before it ends", () => {
    expect(decideRestart({ ...policy, mode: "delay" }, { windowStartMs: 1000, restartsInWindow: 2 }, 60_000)).toMatchObject({
      kind: "restart",
      atMs: 70_000,
    });
  });

  it("fills in missing fields by the type of the Job", () => {
    expect(completeRestartPolicy({ delay: "1s" }, "service")).toEqual({
      attempts: 2,
      interval: "30m",
      delay: "1s",
      mode: "fail",
    });
    expect(completeRestartPolicy(undefined, "batch")).toEqual({ attempts: 3, interval: "24h", delay: "15s", mode: "fail" });
  });
});
