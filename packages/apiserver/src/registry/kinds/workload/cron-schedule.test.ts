import { describe, expect, it } from "vitest";
import { cronScheduleFault } from "./cron-schedule.ts";

describe("cronScheduleFault", () => {
  it.each(["* * * * *", "*/5 0-6 1,15 jan-MAR Sun", "0 0 31 12 7", "@hourly", "@every 1h30m", "  0  4 * * 1-5 "])(
    "takes %s",
    (text) => {
      expect(cronScheduleFault(text)).toBeUndefined();
    },
  );
  it.each([
    "",
    "* * * *",
    "60 * * * *",
    "* 24 * * *",
    "* * 0 * *",
    "* * * 13 *",
    "5-1 * * * *",
    "*/0 * * * *",
    "@never",
    "a * * * *",
    "* * * * * *",
  ])("refuses %j", (text) => {
    expect(cronScheduleFault(text)).toEqual(expect.any(String));
  });
});
