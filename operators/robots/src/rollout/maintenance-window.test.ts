import { expect, it } from "vitest";
import { windowStateOf } from "./maintenance-window.ts";

const nightly = { cron: "0 2 * * *", duration: "2h", timeZone: "Europe/Berlin" };
const at = (text: string): number => Date.parse(text);

it("is open without windows", () => {
  expect(windowStateOf([], 0)).toEqual({ kind: "open" });
});

it.each([
  ["2026-01-01T00:59:59Z", { kind: "closed", opensAtMs: at("2026-01-01T01:00:00Z") }],
  ["2026-01-01T01:00:00Z", { kind: "open" }],
  ["2026-01-01T02:59:59Z", { kind: "open" }],
  ["2026-01-01T03:00:00Z", { kind: "closed", opensAtMs: at("2026-01-02T01:00:00Z") }],
  ["2026-07-01T00:00:00Z", { kind: "open" }],
])("knows at %s whether a window in a time zone is open", (now, state) => {
  expect(windowStateOf([nightly], at(now))).toEqual(state);
});

it("opens with the first of several windows, and names an invalid one", () => {
  const hourly = { cron: "30 * * * *", duration: "5m" };
  expect(windowStateOf([nightly, hourly], at("2026-01-01T10:00:00Z"))).toEqual({
    kind: "closed",
    opensAtMs: at("2026-01-01T10:30:00Z"),
  });
  expect(windowStateOf([{ cron: "x", duration: "5m" }], 0)).toMatchObject({
    kind: "closed",
    problem: expect.stringContaining('update.maintenanceWindows: "x" in UTC'),
  });
});
