import { formatTime } from "@keelson/api-machinery/time";
import fc from "fast-check";
import { expect, it } from "vitest";
import type { Sandbox } from "../api/sandbox.ts";
import { lifetimeEnd } from "./lifetime.ts";
import { draftOf, resumed } from "./status-draft.ts";

const start = Date.UTC(2026, 0, 1, 0, 0, 0, 123);
const exact = (ms: number): string => new Date(ms).toISOString();

const sandbox = (spec: Partial<Sandbox["spec"]>, status: Partial<NonNullable<Sandbox["status"]>> = {}): Sandbox => ({
  apiVersion: "sandbox.fast.io/v1alpha1",
  kind: "Sandbox",
  metadata: { name: "one" },
  spec: { image: "host", poolRef: "pool", ...spec },
  status,
});

it("runs exactly as long as requested, whatever the pauses and renewals", () => {
  const event = fc.record({ kind: fc.constantFrom("run", "pause", "renew"), seconds: fc.integer({ min: 1, max: 100 }) });
  fc.assert(
    fc.property(fc.array(event, { maxLength: 12 }), (events) => {
      let now = start;
      let left = 1000;
      let one = sandbox({ expireTime: exact(now + left * 1000) });
      one = { ...one, status: draftOf(one, "Running", "", now) };
      for (const { kind, seconds } of events) {
        if (kind === "run") {
          now += seconds * 1000;
          left -= seconds;
        } else if (kind === "pause") {
          one = { ...one, status: draftOf(one, "Paused", "", now, { pausedTime: exact(now) }) };
          now += seconds * 1000;
          one = { ...one, status: resumed(one.spec, draftOf(one, "Running", "", now), now) };
        } else {
          // A request for the time that the spec has already changes nothing.
          if (exact(now + seconds * 10_000) === one.spec.expireTime) continue;
          left = seconds * 10;
          one = { ...one, spec: { ...one.spec, expireTime: exact(now + left * 1000) } };
          one = { ...one, status: draftOf(one, "Running", "", now) };
        }
        expect(lifetimeEnd(one)).toBe(now + left * 1000);
        expect(one.status?.expireTime).toBe(formatTime(now + left * 1000));
      }
    }),
  );
});

it("does not extend a renewal that was not observed yet by earlier pauses", () => {
  const status = { pausedSeconds: 100, expiryBase: { expireTime: exact(start), pausedSeconds: 0 } };
  expect(lifetimeEnd(sandbox({ expireTime: exact(start) }, status))).toBe(start + 100_000);
  expect(lifetimeEnd(sandbox({ expireTime: exact(start + 5000) }, status))).toBe(start + 5000);
});
