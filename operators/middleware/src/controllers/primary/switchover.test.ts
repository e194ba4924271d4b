import { describe, expect, it } from "vitest";
import type { GroupStatus } from "../../api/group.ts";
import type { RenderedGroup } from "../../plugin/render-group.ts";
import { podView } from "../../testing/pod-view.ts";
import type { CallResult } from "../effect.ts";
import type { Next } from "../group/next.ts";
import { continueRestart } from "../group/restart.ts";
import { continueSwitchover, switchover } from "./switchover.ts";
import type { PodView } from "../group/pod-view.ts";

const rendered: RenderedGroup = { instances: [], services: [], hasAgents: true, stopFor: {}, preferredPrimaries: [] };
const status = {
  primary: { pod: "p-0", epoch: 4 },
  operation: { token: "t", scenario: "update", phase: "Running", startedAt: "2026-01-01T00:00:00Z" },
} as GroupStatus;

const primary = podView(0, { role: "primary" });

/** The status after a recorded step. */
function recorded(next: Next): GroupStatus {
  if (next.kind !== "record") throw new Error(`unexpected step ${next.kind}`);
  const after = structuredClone(status);
  next.change(after);
  return after;
}

describe("a switchover", () => {
  const begin = (...replicas: PodView[]) => switchover(primary, [primary, ...replicas], status, rendered);

  it("selects a replica that is in sync, and fails if there is none", () => {
    const behind = podView(1, { isInSync: false });
    const elsewhere = podView(1, { primaryHost: "127.0.0.99" });
    const leaving = podView(1, {}, { isWanted: false });
    for (const bad of [behind, elsewhere, leaving]) {
      expect(begin(bad)).toMatchObject({ kind: "fail", errorClass: "AgentPrecondition" });
      expect(recorded(begin(bad, podView(2, {}))).switchover).toMatchObject({ from: "p-0", to: "p-2", epoch: 5 });
    }
  });

  it("prefers a replica that is already up to date", () => {
    const oldTemplate = podView(1, {}, { revision: "r1" });
    const oldParameters = podView(1, { configHash: "old" });
    for (const old of [oldTemplate, oldParameters]) {
      expect(recorded(begin(old, podView(2, {}))).switchover?.to).toBe("p-2");
      expect(recorded(begin(old)).switchover?.to).toBe("p-1");
    }
  });

  it("prefers a replica that the partition holds: it may not be able to follow a primary of the next version", () => {
    const held = podView(1, {}, { isHeld: true });
    expect(recorded(begin(podView(2, {}), held)).switchover?.to).toBe("p-1");
    expect(recorded(begin(podView(2, {}), podView(1, { isInSync: false }, { isHeld: true }))).switchover?.to).toBe("p-2");
  });

  const onRecord = { token: "t/switchover/5", from: "p-0", to: "p-1", epoch: 5 };
  const goOn = (...views: PodView[]) => continueSwitchover(onRecord, views, { ...status, switchover: onRecord });

  it("is requested from the primary until the new primary has the role and the old one does not", () => {
    const asked = goOn(primary, podView(1, {}), podView(2, {}));
    expect(asked).toMatchObject({ kind: "do", effects: [{ ip: "127.0.0.10", call: { target: "127.0.0.11", epoch: 5 } }] });
    expect(goOn(primary, podView(1, { role: "primary" }))).toMatchObject({ kind: "do" });
    expect(recorded(goOn(podView(0, {}), podView(1, { role: "primary" }))).primary).toEqual({ pod: "p-1", epoch: 5 });
  });

  it("promotes no replica if it was refused", () => {
    const asked = goOn(primary, podView(1, {}));
    const [effect] = asked.kind === "do" ? asked.effects : [];
    if (effect?.kind !== "call") throw new Error("no agent is called");
    const refused: CallResult = { kind: "refused", message: "not in sync" };
    expect(effect.after(refused)).toMatchObject({
      primary: { pod: "p-0" },
      operation: { phase: "Failed", errorClass: "AgentPrecondition" },
    });
    expect(effect.after(refused)).not.toHaveProperty("switchover");
  });
});

describe("a restarting Pod", () => {
  const observed = { group: { metadata: { namespace: "default" } } } as never;

  it("is stopped and deleted by its uid", () => {
    expect(continueRestart(observed, { pod: "p-0", uid: "uid-0" }, [primary])).toMatchObject({
      kind: "do",
      effects: [
        { kind: "call", call: { method: "Stop" } },
        { kind: "delete", uid: "uid-0" },
      ],
    });
  });

  it("has terminated when another Pod has its name", () => {
    expect(continueRestart(observed, { pod: "p-0", uid: "uid-before" }, [primary])).toMatchObject({ kind: "record" });
  });
});
