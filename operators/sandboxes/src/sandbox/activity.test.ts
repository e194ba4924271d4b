import { createVirtualClock } from "@keelson/api-machinery/testing";
import { expect, it } from "vitest";
import { Activity } from "./activity.ts";

it("counts the idle time of a sandbox from the end of its last use", async () => {
  const clock = createVirtualClock();
  let changes = 0;
  const activity = new Activity(clock, () => (changes += 1));
  const start = clock.now();
  expect(activity.idleSince("a")).toBe(start);
  const ends = [activity.begin("a"), activity.begin("a")];
  await clock.advance(1000);
  expect([activity.idleSince("a"), activity.idleSince("b")]).toEqual([undefined, start + 1000]);
  ends[0]?.();
  ends[0]?.();
  expect(activity.idleSince("a")).toBeUndefined();
  ends[1]?.();
  expect([activity.idleSince("a"), changes]).toEqual([start + 1000, 2]);
  await clock.advance(500);
  activity.touch("a");
  expect(activity.idleSince("a")).toBe(start + 1500);
});
