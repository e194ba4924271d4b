import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { addDuration, percentile } from "./duration-histogram.ts";
import { passRate } from "./pass-rate.ts";
import { countVerdict, testVerdict, type VerdictCounts, verdictOfReason } from "./verdict.ts";

describe("the verdict of a test", () => {
  it.each<[VerdictCounts, string | undefined]>([
    [{}, undefined],
    [{ passed: 3 }, "Passed"],
    [{ failed: 1 }, "Failed"],
    [{ timeout: 2 }, "Timeout"],
    [{ failed: 1, timeout: 2, error: 3 }, "Failed"],
    [{ error: 1 }, "Error"],
    [{ passed: 9, error: 1 }, "Error"],
    [{ passed: 9, inconclusive: 1 }, "Inconclusive"],
    [{ passed: 199, failed: 1 }, "Flaky"],
    [{ passed: 1, timeout: 1, error: 1 }, "Flaky"],
  ])("of rounds %o is %s", (counts, verdict) => {
    expect(testVerdict(counts)).toBe(verdict);
  });

  it.each([
    ["Timeout", "Timeout"],
    ["CheckFailed", "Failed"],
    ["TargetLost", "Failed"],
    ["Forbidden", "Error"],
    ["InvalidConfig", "Error"],
    ["UnknownKind", "Error"],
    ["Aborted", "Inconclusive"],
  ])("of the reason %s is %s", (reason, verdict) => {
    expect(verdictOfReason(reason)).toBe(verdict);
  });

  it("counts rounds per verdict", () => {
    expect(countVerdict(countVerdict({ passed: 2 }, "Passed"), "Timeout")).toEqual({ passed: 3, timeout: 1 });
  });
});

describe("the pass rate", () => {
  it("has the Wilson interval", () => {
    // Reference values of statsmodels.stats.proportion.proportion_confint(method="wilson").
    expect(passRate({ passed: 190, failed: 10 })).toEqual({ percent: 95, lowPercent: 91.04, highPercent: 97.26 });
    expect(passRate({ passed: 1 })).toEqual({ percent: 100, lowPercent: 20.65, highPercent: 100 });
    expect(passRate({ timeout: 10 })).toEqual({ percent: 0, lowPercent: 0, highPercent: 27.75 });
  });

  it("ignores rounds that say nothing about the system", () => {
    expect(passRate({ error: 3, inconclusive: 1 })).toBeUndefined();
    expect(passRate({ passed: 5, failed: 5, error: 3 })?.percent).toBe(50);
  });
});

describe("the histogram of durations", () => {
  it("has percentiles within 1 % of the exact ones", () => {
    fc.assert(
      fc.property(
        fc.array(fc.double({ min: 0.002, max: 100_000, noNaN: true }), { minLength: 1, maxLength: 200 }),
        fc.integer({ min: 1, max: 100 }),
        (durations, percent) => {
          const histogram = durations.reduce<string | undefined>(addDuration, undefined);
          const sorted = durations.toSorted((a, b) => a - b);
          const exact = sorted[Math.max(Math.ceil((percent / 100) * sorted.length), 1) - 1] ?? 0;
          expect(Math.abs((percentile(histogram, percent) ?? 0) - exact) / exact).toBeLessThan(0.0105);
        },
      ),
    );
  });

  it("stays small however many and however long durations are", () => {
    let histogram: string | undefined;
    for (let index = 0; index < 1_300; index++) histogram = addDuration(histogram, 1.02 ** index / 1_000);
    expect(histogram?.length).toBeLessThan(12_000);
    expect(percentile(undefined, 50)).toBeUndefined();
    expect(percentile(addDuration(undefined, 0), 50)).toBe(0);
  });
});
