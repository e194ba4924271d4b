import { createVirtualClock } from "@keelson/api-machinery/testing";
import { expect, it } from "vitest";
import { RejectedCreates } from "./rejected-creates.ts";

it("counts a rejected create as demand of its pool for 30 s, and reports it", async () => {
  const clock = createVirtualClock();
  const reported: string[] = [];
  const rejected = new RejectedCreates(clock, ({ namespace, name }) => reported.push(`${namespace}/${name}`));
  const [one, other] = [
    { namespace: "a", name: "pool" },
    { namespace: "b", name: "pool" },
  ] as const;
  expect(rejected.isRecent(one)).toBe(false);
  rejected.add(one);
  expect([rejected.isRecent(one), rejected.isRecent(other), reported]).toEqual([true, false, ["a/pool"]]);
  await clock.advance(29_000);
  expect(rejected.isRecent(one)).toBe(true);
  await clock.advance(1_000);
  expect(rejected.isRecent(one)).toBe(false);
});
