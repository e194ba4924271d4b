import { createVirtualClock } from "@keelson/api-machinery/testing";
import { describe, expect, it } from "vitest";
import type { EngineRole } from "./engine.ts";
import { RoleFeed } from "./role-feed.ts";

const replica = (isInSync: boolean, offset = "0"): EngineRole => ({
  role: "replica",
  info: { isInSync: String(isInSync), offset, primaryHost: "10.0.0.1" },
});

/** A program whose answers the test controls, and a subscriber. */
function setUp(first: EngineRole) {
  let now: EngineRole | Error = first;
  let asked = 0;
  const clock = createVirtualClock();
  const engine = {
    role: () => {
      asked += 1;
      return now instanceof Error ? Promise.reject(now) : Promise.resolve(now);
    },
  };
  const feed = new RoleFeed(engine, clock);
  const ending = new AbortController();
  const seen: EngineRole[] = [];
  const watching = (async () => {
    for await (const role of feed.changes(ending.signal)) seen.push(role);
  })();
  return {
    clock,
    feed,
    seen,
    asked: () => asked,
    answers: (next: EngineRole | Error) => {
      now = next;
    },
    end: async () => {
      ending.abort();
      await watching;
    },
  };
}

describe("the role feed", () => {
  it("publishes the role immediately, and again within 50 ms of getting in sync", async () => {
    const { clock, seen, answers, end } = setUp(replica(false));
    await clock.advance(0);
    answers(replica(true));
    await clock.advance(50);
    expect(seen).toEqual([replica(false), replica(true)]);
    await end();
  });

  it("does not publish a growing offset", async () => {
    const { clock, seen, answers, end } = setUp(replica(true, "1"));
    await clock.advance(0);
    answers(replica(true, "2"));
    await clock.advance(5_000);
    expect(seen).toHaveLength(1);
    await end();
  });

  it("publishes that the program stops answering, and that it answers again", async () => {
    const { clock, seen, answers, end } = setUp(replica(true));
    await clock.advance(0);
    answers(new Error("hangs"));
    await clock.advance(1_000);
    answers(replica(true));
    await clock.advance(1_000);
    expect(seen.map(({ role }) => role)).toEqual(["replica", "unknown", "replica"]);
    await end();
  });

  it("publishes a change that an explicit refresh found", async () => {
    const { clock, feed, seen, answers, end } = setUp(replica(true));
    await clock.advance(0);
    answers({ role: "primary", info: {} });
    await feed.refresh();
    await clock.advance(0);
    expect(seen.map(({ role }) => role)).toEqual(["replica", "primary"]);
    await end();
  });

  it("does not poll without subscribers", async () => {
    const { clock, asked, end } = setUp(replica(false));
    await clock.advance(100);
    await end();
    const before = asked();
    await clock.advance(60_000);
    expect(asked()).toBe(before);
    expect(clock.pendingTimers).toBe(0);
  });
});
