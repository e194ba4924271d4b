import { expect, test } from "vitest";
import { afterStep, type AuthorityState, currentAuthorityState, nextRotationStep, stageAuthority } from "./authority-state.ts";

const dayMs = 86_400_000;
const t0 = Date.UTC(2026, 0, 1);
const yearsLater = (years: number, days = 0): number => t0 + (years * 365 + days) * dayMs;

async function rotated(state: AuthorityState, now: number, ...steps: readonly string[]): Promise<AuthorityState> {
  let current = state;
  for (const expected of steps) {
    const step = nextRotationStep(current, now);
    expect(step?.kind).toBe(expected);
    if (step !== undefined) current = await afterStep(current, step.kind, now);
  }
  return current;
}

test("an authority is replaced two years before it expires, in steps, and the new one after 20 years", async () => {
  const first = await currentAuthorityState(undefined, t0);
  expect(nextRotationStep(first, yearsLater(17, 360))).toBeUndefined();
  const last = await rotated(first, yearsLater(18, 1), "stage", "promote", "retire", "drop");
  expect(last.authority.certificate).not.toBe(first.authority.certificate);
  expect([last.previous, last.next]).toEqual([undefined, undefined]);
  expect(nextRotationStep(last, yearsLater(35))).toBeUndefined();
  expect(nextRotationStep(last, yearsLater(36, 2))).toEqual({ kind: "stage" });
});

test("the old authority waits for robots that are away until 30 days before it expires", async () => {
  const issuing = await rotated(await currentAuthorityState(undefined, t0), yearsLater(18, 1), "stage", "promote");
  expect(nextRotationStep(issuing, yearsLater(19, 300))).toEqual({ kind: "retire", isForced: false });
  expect(nextRotationStep(issuing, yearsLater(19, 336))).toEqual({ kind: "retire", isForced: true });
});

test("a rotation that a user has requested earlier waits for the user", async () => {
  const staged = await stageAuthority(await currentAuthorityState(undefined, t0), yearsLater(1));
  const issuing = await rotated(staged, yearsLater(1), "promote");
  expect(nextRotationStep(issuing, yearsLater(17))).toBeUndefined();
});
