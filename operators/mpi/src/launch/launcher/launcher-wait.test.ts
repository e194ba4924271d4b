import { describe, expect, it } from "vitest";
import { LauncherWait, startTimeoutMs, unreachableTimeoutMs } from "./launcher-wait.ts";

/** When a worker that gets an error every second gives up; undefined if it does not within an hour. */
function endOf(codeAt: (ms: number) => string): number | undefined {
  const wait = new LauncherWait(5000);
  for (let ms = 0; ms <= 60 * 60_000; ms += 1000) if (!wait.continuesAfter(codeAt(ms), 5000 + ms)) return ms;
  return undefined;
}

describe("a worker that cannot connect to its launcher", () => {
  it("gives up after the start timeout while connections are refused, because the launcher may have ended", () => {
    expect(endOf(() => "ECONNREFUSED")).toBe(startTimeoutMs + 1000);
  });

  it("gives up after the start timeout while the launcher's name is not resolved", () => {
    for (const code of ["ENOTFOUND", "EAI_AGAIN"]) expect(endOf(() => code)).toBe(startTimeoutMs + 1000);
  });

  it("gives up sooner after other errors, but not after a single one that follows a long wait", () => {
    expect(endOf(() => "ETIMEDOUT")).toBe(unreachableTimeoutMs + 1000);
    const resolvedAt = 5 * 60_000;
    expect(endOf((ms) => (ms < resolvedAt ? "ENOTFOUND" : "ETIMEDOUT"))).toBe(resolvedAt + unreachableTimeoutMs);
  });
});
