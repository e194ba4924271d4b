import { expect, it } from "vitest";
import type { Sandbox } from "../../api/sandbox.ts";
import { retryHintMs } from "./retry-hint.ts";

const now = Date.UTC(2026, 0, 1);
const expiringIn = (ms: number, phase = "Running"): Sandbox =>
  ({ spec: { expireTime: new Date(now + ms).toISOString() }, status: { phase } }) as unknown as Sandbox;

it.each([
  ["5 s without an expiry", [], 5_000],
  ["the nearest expiry", [expiringIn(30_000), expiringIn(20_000)], 20_000],
  ["at least 1 s", [expiringIn(-10)], 1_000],
  ["at most 60 s", [expiringIn(3_600_000)], 60_000],
  ["without sandboxes that hold no slot", [expiringIn(10_000, "Failed")], 5_000],
])("suggests %s", (_, sandboxes, ms) => {
  expect(retryHintMs(sandboxes, now)).toBe(ms);
});
