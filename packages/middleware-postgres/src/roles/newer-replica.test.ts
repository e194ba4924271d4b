import { describe, expect, it } from "vitest";
import { lackOf, parseReceived } from "./newer-replica.ts";

const own = { systemId: "1", timeline: 2, position: 1_000, oldest: 0 };
const peer = (host: string, position: number, part: object = {}) => ({ ...own, host, position, ...part });

describe("what a replica lacks", () => {
  it("is the log of the peer with the most of those that have more", () => {
    expect(lackOf(own, [peer("b", 1_500), peer("c", 2_000), peer("d", 900)])).toMatchObject({
      kind: "log",
      peer: { host: "c" },
    });
  });

  it("is nothing if no other has more of the same cluster and timeline", () => {
    const nothing = { kind: "nothing" };
    expect(lackOf(own, [peer("b", 1_000), peer("c", 500)])).toEqual(nothing);
    expect(lackOf(own, [])).toEqual(nothing);
    expect(lackOf(own, [peer("b", 2_000, { timeline: 1 }), peer("c", 2_000, { systemId: "2", timeline: 3 })])).toEqual(nothing);
  });

  it("cannot be received from a peer with a later timeline, even if that has less log", () => {
    const peers = [peer("b", 2_000), peer("c", 900, { timeline: 3 })];
    expect(lackOf(own, peers)).toMatchObject({ kind: "unreachable", peer: { host: "c" } });
  });

  it("cannot be received from a peer that has not kept it", () => {
    expect(lackOf(own, [peer("b", 2_000, { oldest: 1_001 })])).toMatchObject({ kind: "unreachable", peer: { host: "b" } });
    expect(lackOf(own, [peer("b", 2_000, { oldest: 1_000 })])).toMatchObject({ kind: "log" });
  });
});

describe("what a server has received", () => {
  it("is known of a standby only", () => {
    const row = { standby: "true", system_id: "1", timeline: "0000000A", position: "4096", oldest: "0000000000000002" };
    expect(parseReceived(row)).toEqual({ systemId: "1", timeline: 10, position: 4_096, oldest: 2 * 2 ** 24 });
    expect(parseReceived({ ...row, standby: "false" })).toBeUndefined();
    expect(parseReceived(undefined)).toBeUndefined();
  });
});
