import { describe, expect, it } from "vitest";
import type { Engine } from "../database/engine.ts";
import { History } from "./history.ts";

const engine = { position: { revision: 0, compacted: 0 }, log: () => [] } as unknown as Engine;

function createHistory(options: { historyEvents?: number; historyBytes?: number } = {}) {
  const time = { ms: 0 };
  const limits = { historyMs: 60_000, historyEvents: 1_000_000, historyBytes: 1_000_000, ...options };
  const history = new History({ engine, read: () => undefined, now: () => time.ms, ...limits });
  return { history, time };
}

describe("the history of events", () => {
  it("drops events that are too old", () => {
    const { history, time } = createHistory();
    for (let revision = 1; revision <= 100; revision++) {
      time.ms = revision * 1_000;
      history.mark(revision, time.ms, 10);
    }
    expect(history.compactTo(100)).toBe(39);
    time.ms += 10_000;
    expect(history.compactTo(100)).toBe(49);
  });

  it("drops the oldest events of a burst that is too large, within one second too", () => {
    const { history } = createHistory();
    for (let revision = 1; revision <= 10_000; revision++) history.mark(revision, 0, 1_000);
    const upTo = history.compactTo(10_000);
    // A mark stands for a sixty-fourth.
    expect(upTo).toBeGreaterThanOrEqual(9_000);
    expect(upTo).toBeLessThanOrEqual(9_000 + 1_000 / 64 + 1);
    expect(history.compactTo(10_000)).toBe(upTo);
  });

  it("drops events that are too many", () => {
    const { history } = createHistory({ historyEvents: 5 });
    history.mark(100, 0, 10);
    expect(history.compactTo(100)).toBe(95);
  });
});
