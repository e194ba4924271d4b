import { expect, test } from "vitest";
import { checkExpireTime } from "./expire-time.ts";

const nowMs = Date.UTC(2026, 0, 1);

test("rejects a time that has passed, and accepts one to come, or 0 for never", () => {
  expect(() => checkExpireTime(600, nowMs)).toThrow(
    "--expire-time: 600 is 1970-01-01T00:10:00.000Z, which is in the past: must be Unix seconds, or 0; keelson sandbox renew NAME --expire-in counts from now",
  );
  expect(() => checkExpireTime(nowMs / 1000, nowMs)).toThrow(/in the past/);
  for (const seconds of [undefined, 0, nowMs / 1000 + 1]) expect(() => checkExpireTime(seconds, nowMs)).not.toThrow();
});
