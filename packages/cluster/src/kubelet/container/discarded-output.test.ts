import { PassThrough } from "node:stream";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { expect, test } from "vitest";
import { DiscardedOutput } from "./discarded-output.ts";

test("reads a flood of output in bursts, and all of it", async () => {
  const clock = createVirtualClock();
  const stream = new PassThrough();
  const discarded = new DiscardedOutput(stream, clock);
  discarded.add(100_000);
  expect(stream.isPaused()).toBe(false);
  discarded.add(200_000);
  expect(stream.isPaused()).toBe(true);
  await clock.advance(10);
  expect(stream.isPaused()).toBe(false);
  discarded.add(100_000);
  expect(stream.isPaused()).toBe(false);
});
