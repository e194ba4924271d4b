import { describe, expect, it } from "vitest";
import { newerReplica, parseReceived } from "./newer-replica.ts";

const own = { systemId: "1", timeline: 2, position: 1_000 };
const peer = (host: string, position: number, part: object = {}) => ({ ...own, host, position, ...part });

describe("the replica with more log", () => {
  it("is the one with the most of those that have more", () => {
    expect(newerReplica(own, [peer("b", 1_500), peer("c", 2_000), peer("d", 900)])?.host).toBe("c");
  });

  it("is none if no other has more", () => {
    expect(newerReplica(own, [peer("b", 1_000), peer("c", 500)])).toBeUndefined();
    expect(newerReplica(own, [])).toBeUndefined();
  });

  it("has the same history", () => {
    expect(newerReplica(own, [peer("b", 2_000, { timeline: 1 }), peer("c", 2_000, { systemId: "2" })])).toBeUndefined();
  });

  it("is a standby", () => {
    const row = { standby: "true", system_id: "1", timeline: "0000000A", position: "4096" };
    expect(parseReceived(row)).toEqual({ systemId: "1", timeline: 10, position: 4_096 });
    expect(parseReceived({ ...row, standby: "false" })).toBeUndefined();
    expect(parseReceived(undefined)).toBeUndefined();
  });
});
