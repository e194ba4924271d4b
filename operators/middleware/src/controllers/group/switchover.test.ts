import { describe, expect, it } from "vitest";
import type { GroupStatus } from "../../api/group.ts";
import type { RenderedGroup } from "../../plugin/render-group.ts";
import { viewOf } from "../../testing/view-of.ts";
import type { CallResult } from "../effect.ts";
import type { Next } from "./next.ts";
import { goOnRestarting } from "./restart.ts";
import { goOnSwitching, switchover } from "./switchover.ts";
import type { View } from "./view.ts";

const rendered: RenderedGroup = { instances: [], services: [], parameters: {}, configHash: "new" };
const status = {
  primary: { pod: "p-0", epoch: 4 },
  operation: { token: "t", scenario: "update", phase: "Running", startedAt: "2026-01-01T00:00:00Z" },
} as GroupStatus;

const primary = viewOf(0, { role: "primary" });

/** The status that a step leaves on record. */
function recorded(next: Next): GroupStatus {
  if (next.kind !== "record") throw new Error(`is to be ${next.kind}`);
  const after = structuredClone(status);
  next.change(after);
  return after;
}

describe("a switchover", () => {
  const begin = (...replicas: View[]) => switchover(primary, [primary, ...replicas], status, rendered);

  it("goes to a replica that is in sync, and to nobody where none is", () => {
    const behind = viewOf(1, { isInSync: false });
    const elsewhere = viewOf(1, { primaryHost: "127.0.0.99" });
    const leaving = viewOf(1, {}, { isWanted: false });
    for (const bad of [behind, elsewhere, leaving]) {
      expect(begin(bad)).toMatchObject({ kind: "fail", errorClass: "AgentPrecondition" });
      expect(recorded(begin(bad, viewOf(2, {}))).switchover).toMatchObject({ from: "p-0", to: "p-2", epoch: 5 });
    }
  });

  it("goes to one that is already as it is to be, where there is one", () => {
    const oldTemplate = viewOf(1, {}, { revision: "r1" });
    const oldParameters = viewOf(1, { configHash: "old" });
    for (const old of [oldTemplate, oldParameters]) {
      expect(recorded(begin(old, viewOf(2, {}))).switchover?.to).toBe("p-2");
      expect(recorded(begin(old)).switchover?.to).toBe("p-1");
    }
  });

  const onRecord = { token: "t/switchover/5", from: "p-0", to: "p-1", epoch: 5 };
  const goOn = (...views: View[]) => goOnSwitching(onRecord, views, { ...status, switchover: onRecord });

  it("is asked of the primary until the chosen one has the role and the old one has not", () => {
    const asked = goOn(primary, viewOf(1, {}), viewOf(2, {}));
    expect(asked).toMatchObject({ kind: "do", effects: [{ ip: "127.0.0.10", call: { target: "127.0.0.11", epoch: 5 } }] });
    expect(goOn(primary, viewOf(1, { role: "primary" }))).toMatchObject({ kind: "do" });
    expect(recorded(goOn(viewOf(0, {}), viewOf(1, { role: "primary" }))).primary).toEqual({ pod: "p-1", epoch: 5 });
  });

  it("promotes nobody where it was refused", () => {
    const asked = goOn(primary, viewOf(1, {}));
    const [effect] = asked.kind === "do" ? asked.effects : [];
    if (effect?.kind !== "call") throw new Error("nobody is asked");
    const refused: CallResult = { kind: "refused", message: "not in sync" };
    expect(effect.after(refused)).toMatchObject({
      primary: { pod: "p-0" },
      operation: { phase: "Failed", errorClass: "AgentPrecondition" },
    });
    expect(effect.after(refused)).not.toHaveProperty("switchover");
  });
});

describe("a Pod that is replaced", () => {
  const observed = { group: { metadata: { namespace: "default" } } } as never;

  it("is stopped and deleted by its uid", () => {
    expect(goOnRestarting(observed, { pod: "p-0", uid: "uid-0" }, [primary])).toMatchObject({
      kind: "do",
      effects: [
        { kind: "call", call: { method: "Stop" } },
        { kind: "delete", uid: "uid-0" },
      ],
    });
  });

  it("has ended when another has its name, which is left alone", () => {
    expect(goOnRestarting(observed, { pod: "p-0", uid: "uid-before" }, [primary])).toMatchObject({ kind: "record" });
  });
});
