import { describe, expect, it } from "vitest";
import { completeReschedulePolicy, decideReschedule, type PastMoves, rescheduleDelayMs } from "./reschedule-policy.ts";

const minuteMs = 60_000;
const now = 1_000_000;
const none: PastMoves = { windowStartMs: undefined, movesInWindow: 0, consecutive: 0 };
const policyOf = (fields: Parameters<typeof completeReschedulePolicy>[0] = {}) => completeReschedulePolicy(fields, "batch");

describe("rescheduleDelayMs", () => {
  it.each([
    ["constant", [30, 30, 30, 30, 30, 30]],
    ["exponential", [30, 60, 120, 240, 480, 600]],
    ["fibonacci", [30, 30, 60, 90, 150, 240]],
  ] as const)("grows as %s, up to maxDelay", (delayFunction, seconds) => {
    const policy = { delay: "30s", delayFunction, maxDelay: "10m" };
    expect(seconds.map((_, moves) => rescheduleDelayMs(policy, moves))).toEqual(seconds.map((each) => each * 1000));
    expect(rescheduleDelayMs(policy, 1_000)).toBe(delayFunction === "constant" ? 30_000 : 10 * minuteMs);
  });
});

describe("decideReschedule", () => {
  it("has Nomad's defaults: a service moves without limit, a batch task once in 24 hours", () => {
    expect(completeReschedulePolicy({}, "service")).toMatchObject({ unlimited: true, delay: "30s", maxDelay: "1h" });
    expect(completeReschedulePolicy({}, "batch")).toMatchObject({ unlimited: false, attempts: 1, interval: "24h" });
    expect(completeReschedulePolicy({ attempts: 2 }, "service")).toMatchObject({ unlimited: false, attempts: 2 });
  });

  it("counts moves within the interval, which starts with the first one", () => {
    const policy = policyOf({ attempts: 2, interval: "10m" });
    const first = decideReschedule(policy, none, { now, ranMs: 0 });
    expect(first).toMatchObject({ kind: "move", windowStartMs: now, movesInWindow: 1, consecutive: 1 });
    const used = { windowStartMs: now, movesInWindow: 2, consecutive: 2 };
    expect(decideReschedule(policy, used, { now: now + 9 * minuteMs, ranMs: 0 })).toEqual({
      kind: "stay",
      why: "2 of 2 moves within 10m are used up",
    });
    expect(decideReschedule(policy, used, { now: now + 10 * minuteMs, ranMs: 0 })).toMatchObject({
      kind: "move",
      movesInWindow: 1,
    });
  });

  it("does not count with unlimited, and never moves with 0 attempts", () => {
    const past = { windowStartMs: now, movesInWindow: 1_000, consecutive: 1_000 };
    expect(decideReschedule(policyOf({ attempts: 1, unlimited: true }), past, { now, ranMs: 0 }).kind).toBe("move");
    expect(decideReschedule(policyOf({ attempts: 0 }), none, { now, ranMs: 0 })).toEqual({
      kind: "stay",
      why: "the reschedule policy has 0 attempts",
    });
  });

  it("starts the delay anew after an attempt that ran longer than maxDelay", () => {
    const policy = policyOf({ unlimited: true, maxDelay: "1h" });
    const past = { windowStartMs: now, movesInWindow: 3, consecutive: 3 };
    expect(decideReschedule(policy, past, { now, ranMs: 60 * minuteMs })).toMatchObject({ delayMs: 240_000 });
    expect(decideReschedule(policy, past, { now, ranMs: 61 * minuteMs })).toMatchObject({ delayMs: 30_000, consecutive: 1 });
  });
});
