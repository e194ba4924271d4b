import { setImmediate as nextTurn } from "node:timers/promises";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { describe, expect, it } from "vitest";
import { FanOut } from "./fan-out.ts";

describe("FanOut", () => {
  it("sends after the current turn, once per watcher, to a limited number of watchers per turn", async () => {
    const fanOut = new FanOut(createVirtualClock());
    const sent: number[] = [];
    const watchers = Array.from({ length: 80 }, (_, index) => () => void sent.push(index));
    for (const send of [...watchers, ...watchers]) fanOut.add(send);
    fanOut.delete(watchers[79] ?? (() => undefined));
    expect(sent).toEqual([]);
    const perTurn: number[] = [];
    for (let turn = 0; turn < 4; turn++) {
      const before = sent.length;
      await nextTurn();
      perTurn.push(sent.length - before);
    }
    expect(perTurn).toEqual([32, 32, 15, 0]);
    expect(sent).toEqual(watchers.slice(0, 79).map((_, index) => index));
  });

  it("batches events briefly after a round of many watchers, and not after one of few", async () => {
    const clock = createVirtualClock();
    const fanOut = new FanOut(clock);
    let sent = 0;
    const add = (count: number): void => {
      for (let index = 0; index < count; index++) fanOut.add(() => void (sent += 1));
    };
    add(2);
    await nextTurn();
    add(40);
    await nextTurn();
    await nextTurn();
    expect(sent).toBe(42);
    add(40);
    await nextTurn();
    await nextTurn();
    expect(sent).toBe(42);
    await clock.advance(4);
    await nextTurn();
    expect(sent).toBe(82);
    await clock.advance(4);
    add(1);
    await nextTurn();
    expect(sent).toBe(83);
  });
});
