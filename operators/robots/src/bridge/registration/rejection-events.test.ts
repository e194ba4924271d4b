import { createVirtualClock } from "@keelson/api-machinery/testing";
import { expect, it } from "vitest";
import { robotOf } from "../../testing/objects.ts";
import { RejectionEvents, rejectionEventIntervalMs } from "./rejection-events.ts";

it("records an event for a rejected robot, at most once a minute", async () => {
  const clock = createVirtualClock();
  const notes: string[] = [];
  const events = new RejectionEvents({
    clock,
    events: { event: (_, { reason, note }) => void notes.push(`${reason}: ${note}`) },
    regarding: (robotId) => robotOf(robotId),
  });
  const rejection = { robotId: "r1", reason: "WrongJoinToken", message: "wrong token" } as const;
  events.record(rejection);
  events.record(rejection);
  events.record({ ...rejection, robotId: "r2" });
  expect(notes).toEqual([
    "WrongJoinToken: robot r1 was rejected: wrong token",
    "WrongJoinToken: robot r2 was rejected: wrong token",
  ]);
  await clock.advance(rejectionEventIntervalMs);
  events.record(rejection);
  expect(notes).toHaveLength(3);
});
