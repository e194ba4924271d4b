import { describe, expect, it } from "vitest";
import type { GroupStatus } from "../../api/group.ts";
import { podView } from "../../testing/pod-view.ts";
import type { CallResult } from "../effect.ts";
import type { PodView } from "../group/pod-view.ts";
import { reconcileFailover } from "./failover.ts";

const observed = { group: { metadata: { namespace: "default" }, spec: {} } } as never;
const primary = { pod: "p-0", epoch: 4 };
const failed = podView(0, { role: "recovering" });

/** The replica that is chosen when `p-0` has failed. */
function chosenOf(...replicas: PodView[]): string | undefined {
  const next = reconcileFailover(observed, [failed, ...replicas], { primary });
  if (next.kind !== "record") throw new Error(`unexpected step ${next.kind}`);
  const after: GroupStatus = { primary };
  next.change(after);
  return after.failover?.to;
}

/** The status after `p-1` has answered the request to take over. */
function answered(result: CallResult, ...replicas: PodView[]): object | undefined {
  const status = { primary, failover: { from: "p-0", to: "p-1", epoch: 5 } };
  const next = reconcileFailover(observed, [failed, ...replicas], status);
  const [effect] = next.kind === "do" ? next.effects : [];
  if (effect?.kind !== "call") throw new Error("no agent is called");
  return effect.after(result);
}

describe("the replica that takes over", () => {
  it("has the most data of the latest timeline", () => {
    expect(chosenOf(podView(1, { offset: 500 }), podView(2, { offset: 900 }))).toBe("p-2");
    expect(chosenOf(podView(1, { offset: 900, timeline: 1 }), podView(2, { offset: 500, timeline: 2 }))).toBe("p-2");
    expect(chosenOf(podView(1, { offset: 500, timeline: 2 }), podView(2, { offset: 900, timeline: 2 }))).toBe("p-2");
  });

  const refused: CallResult = { kind: "refused", message: "the log did not arrive in time" };

  it("is chosen again if it was refused and another one has more data", () => {
    const dropped = { primary: { pod: "p-0", epoch: 5 } };
    expect(answered(refused, podView(1, { offset: 500 }), podView(2, { offset: 900 }))).toEqual(dropped);
    expect(answered(refused, podView(1, { offset: 900, timeline: 1 }), podView(2, { offset: 500, timeline: 2 }))).toEqual(
      dropped,
    );
  });

  it("stays if it has the most data, or if it is not known whether it was promoted", () => {
    const stays = { failover: { from: "p-0", to: "p-1", epoch: 5, refusal: "the log did not arrive in time" } };
    expect(answered(refused, podView(1, { offset: 900 }), podView(2, { offset: 900 }))).toMatchObject(stays);
    const unreachable: CallResult = { kind: "unreachable", message: "timeout" };
    expect(answered(unreachable, podView(1, { offset: 500 }), podView(2, { offset: 900 }))).toBeUndefined();
  });

  it("waits for the end of a primary that must be terminated", () => {
    expect(answered({ ...refused, mustTerminate: true }, podView(1, { offset: 500 }), podView(2, { offset: 900 }))).toEqual({
      primary,
      failover: { from: "p-0", to: "p-1", epoch: 5 },
      fencing: { pod: "p-0", uid: "uid-0" },
    });
  });
});
