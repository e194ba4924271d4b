import { describe, expect, it } from "vitest";
import type { Group, GroupStatus } from "../../api/group.ts";
import { podView } from "../../testing/pod-view.ts";
import type { Next } from "../group/next.ts";
import { byPreference, reconcileMembers } from "./members.ts";

const primary = { pod: "p-0", epoch: 1 };
const decide = (size: number, status: GroupStatus, keys: readonly string[] = [], highAvailability: object = {}): Next => {
  const views = Array.from({ length: size }, (_, at) => podView(at, { members: keys[at] ?? "" }));
  return reconcileMembers({ spec: { highAvailability: { quorum: true, ...highAvailability } } } as Group, views, {
    primary,
    ...status,
  });
};
/** The members that a decision records. */
const recorded = (next: Next): readonly string[] | undefined => {
  if (next.kind !== "record") return undefined;
  const status: GroupStatus = {};
  next.change(status);
  return status.members?.pods;
};
/** The Pod that receives the members, and the call. */
const called = (next: Next) => {
  const [effect] = next.kind === "do" ? next.effects : [];
  return effect?.kind === "call" && effect.call.method === "SetMembers" ? { ip: effect.ip, ...effect.call } : undefined;
};

describe("the members of the quorum", () => {
  it("are all Pods of a Group of three or more, and none of a smaller one", () => {
    expect(recorded(decide(3, {}))).toEqual(["p-0", "p-1", "p-2"]);
    expect(decide(2, {})).toEqual({ kind: "settled" });
    expect(recorded(decide(2, { members: { version: 1, pods: ["p-0", "p-1", "p-2"] } }, ["?", "?"]))).toBeUndefined();
  });

  it("are empty unless the Group enables a quorum", () => {
    expect(decide(3, {}, [], { quorum: false })).toEqual({ kind: "settled" });
    const members = { version: 1, pods: ["p-0", "p-1", "p-2"] };
    const key = called(decide(3, { members }))?.key ?? "";
    expect(recorded(decide(3, { members }, [key, key, key], { quorum: false }))).toEqual([]);
  });

  it("are set on every agent, the primary's last", () => {
    const members = { version: 1, pods: ["p-0", "p-1", "p-2"] };
    const first = called(decide(3, { members }));
    expect(first).toMatchObject({ ip: "127.0.0.11", maxLagBytes: 0 });
    const key = first?.key ?? "";
    expect(called(decide(3, { members }, ["", key, ""]))?.ip).toBe("127.0.0.12");
    expect(called(decide(3, { members }, ["", key, key]))?.ip).toBe("127.0.0.10");
    expect(decide(3, { members }, [key, key, key])).toEqual({ kind: "settled" });
  });

  it("change one at a time, when all agents have the last change", () => {
    const members = { version: 1, pods: ["p-0", "p-1", "p-2"] };
    const key = called(decide(3, { members }))?.key ?? "";
    expect(called(decide(5, { members }, [key, key, ""]))).toBeDefined();
    expect(recorded(decide(5, { members }, [key, key, key, key, key]))).toEqual(["p-0", "p-1", "p-2", "p-3"]);
    const five = { version: 3, pods: ["p-0", "p-1", "p-2", "p-3", "p-4"] };
    const last = called(decide(5, { members: five }))?.key ?? "";
    expect(recorded(decide(3, { members: five }, [last, last, last]))).toEqual(["p-0", "p-1", "p-2", "p-4"]);
  });

  it("stand in order of preference, with the declared lag", () => {
    const members = { version: 1, pods: ["p-0", "p-1", "p-2"] };
    const order = { preferredPrimaries: [2, 0], maxReplicationLag: "1Ki" };
    const sent = called(decide(3, { members }, [], order));
    expect(sent?.members.map(({ name }) => name)).toEqual(["p-2", "p-0", "p-1"]);
    expect(sent?.maxLagBytes).toBe(1_024);
    expect(byPreference([podView(0, {}), podView(1, {})], [1]).map(({ name }) => name)).toEqual(["p-1", "p-0"]);
  });
});
