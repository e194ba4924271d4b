import { describe, expect, it } from "vitest";
import { hostCount, ranksOfHosts, workerPodCount } from "./host-layout.ts";

describe("the layout of a job", () => {
  it("has one host per rank by default", () => {
    expect(ranksOfHosts({ ranks: 3 })).toEqual([1, 1, 1]);
  });

  it("fills the slots of each host before the next", () => {
    expect(ranksOfHosts({ ranks: 5, slots: 2 })).toEqual([2, 2, 1]);
    expect(hostCount({ ranks: 5, slots: 8 })).toBe(1);
  });

  it("counts a launcher that is a worker as a host without its own Pod", () => {
    expect(workerPodCount({ ranks: 5, slots: 2, launcherIsWorker: true })).toBe(2);
    expect(workerPodCount({ ranks: 5, slots: 2 })).toBe(3);
  });
});
