import { describe, expect, it } from "vitest";
import type { GroupStatus } from "../../api/group.ts";
import type { RenderedGroup } from "../../plugin/render-group.ts";
import { podView } from "../../testing/pod-view.ts";
import { recordPointOfNoReturn } from "../primary/point-of-no-return.ts";
import type { CallResult } from "../effect.ts";
import type { Role } from "./observation.ts";
import type { Next } from "./next.ts";
import type { PodView } from "./pod-view.ts";
import { stopForUpgrade, upgradeData } from "./upgrade-data.ts";

const now = Date.parse("2026-01-01T00:00:00Z");
const rendered: RenderedGroup = {
  ...{ instances: [], services: [], hasAgents: true, preferredPrimaries: [] },
  stopFor: { "16": ["15"], "18": ["15", "16"] },
};
const status = {
  primary: { pod: "p-0", epoch: 4 },
  operation: { token: "t", scenario: "upgrade", phase: "Running", startedAt: "2026-01-01T00:00:00Z" },
} as GroupStatus;
const checked = { ...status, operation: { ...status.operation, checked: true } } as GroupStatus;

/** A Pod that wants version 18; `isOld`: it was created for another one. */
function pod(ordinal: number, role: Partial<Role>, isOld = true): PodView {
  const view = podView(ordinal, role, { revision: isOld ? "r1" : "r2" });
  return { ...view, instance: { ...view.instance, version: "18" } as never };
}
const old = [pod(0, { role: "primary", version: "15.18" }), pod(1, { version: "15.18" })];
/** A Pod of version 18 with data of version 15. */
const waiting = (ordinal: number, role: Partial<Role> = {}): PodView =>
  pod(ordinal, { role: "recovering", version: "18.1", dataVersion: "15", keys: 5, ...role }, false);

function recorded(next: Next | undefined): GroupStatus {
  if (next?.kind !== "record") throw new Error(`unexpected step ${next?.kind}`);
  const after = structuredClone(status);
  next.change(after);
  return after;
}

function called(next: Next | undefined): {
  readonly call: unknown;
  readonly after: (result: CallResult) => object | undefined;
} {
  const effect = next?.kind === "do" ? next.effects[0] : undefined;
  if (effect?.kind !== "call") throw new Error(`unexpected step ${next?.kind}`);
  return effect;
}

describe("an upgrade between versions that do not replicate", () => {
  const stop = (views: readonly PodView[], from: GroupStatus = status) => stopForUpgrade({ now }, rendered, views, from);

  it("is left to the usual restarts if the versions replicate", () => {
    const minor = old.map((view) => ({ ...view, instance: { ...view.instance, version: "15.19" } as never }));
    expect(stop(minor)).toBeUndefined();
  });

  it("asks the primary first, and fails with its reason", () => {
    const { call, after } = called(stop(old));
    expect(call).toMatchObject({ method: "CheckUpgrade", version: "18" });
    const refused = after({ kind: "refused", message: "prepared transactions" });
    expect(refused).toMatchObject({
      operation: {
        phase: "Failed",
        errorClass: "Config",
        message: "the data of p-0 cannot be upgraded to 18: prepared transactions",
      },
    });
    expect(after({ kind: "unreachable", message: "timeout" })).toBeUndefined();
    expect(after({ kind: "done" })).toMatchObject({ operation: { phase: "Running", checked: true } });
  });

  it("stops all Pods at the same time once they were checked, including to return to the old version", () => {
    expect(recorded(stop(old, checked)).restarting).toMatchObject({ pod: "p-0", others: [{ name: "p-1" }] });
    const back = [pod(0, { version: "18.1" }), pod(1, { version: "18.1" })].map((view) => ({
      ...view,
      instance: { ...view.instance, version: "15" } as never,
    }));
    expect(recorded(stop(back)).restarting).toMatchObject({ pod: "p-0", others: [{ name: "p-1" }] });
  });
});

describe("data of an old version", () => {
  const next = (views: readonly PodView[], from: GroupStatus = checked) => upgradeData({ now }, rendered, views, from);

  it("is upgraded on the primary only, whatever the others have", () => {
    expect(called(next([waiting(0), waiting(1, { keys: 9 })])).call).toMatchObject({ method: "UpgradeData" });
    expect(next([waiting(0, { upgrade: "running" }), waiting(1)])).toMatchObject({ kind: "wait" });
    expect(next([pod(0, { role: "recovering", version: "18.1" }, false), waiting(1)]).kind).toBe("settled");
    expect(next([{ ...waiting(0), role: undefined }, waiting(1)]).kind).toBe("settled");
    expect(next(old).kind).toBe("settled");
  });

  it("fails the operation with the reason, and waits with it afterwards", () => {
    const views = [waiting(0, { upgrade: "failed: disk full" }), waiting(1)];
    const message = "upgrading the data of p-0 from 15 to 18.1 failed: disk full";
    expect(next(views)).toMatchObject({ kind: "fail", message, errorClass: "Config" });
    const ended = { ...checked, operation: { ...checked.operation, phase: "Failed" } } as GroupStatus;
    expect(next(views, ended)).toMatchObject({ kind: "wait", message });
  });

  it("is used by programs of its version again if the change is reverted", () => {
    const views = [waiting(0), waiting(1)].map((view) => ({
      ...view,
      instance: { ...view.instance, revision: "r3", version: "15" } as never,
    }));
    expect(recorded(next(views)).restarting).toMatchObject({ pod: "p-0", others: [{ name: "p-1" }] });
  });

  it("of a Pod that was replaced too early does not stop the others before the check", () => {
    const [primary] = old;
    if (primary === undefined) throw new Error("no primary");
    expect(called(next([primary, waiting(1)], status)).call).toMatchObject({ method: "CheckUpgrade" });
    expect(recorded(next([primary, waiting(1)])).restarting).toMatchObject({ pod: "p-0" });
  });

  it("of the replica with the newest is upgraded if the primary has lost its volume, and only once all have reported", () => {
    const empty = pod(0, { role: "unassigned", version: "18.1", keys: 0 }, false);
    const silent = { ...waiting(2), role: undefined };
    expect(next([empty, waiting(1), silent])).toMatchObject({ kind: "wait", message: expect.stringContaining("p-2") });
    expect(recorded(next([empty, waiting(1), waiting(2, { keys: 7 })])).primary).toEqual({ pod: "p-2", epoch: 5 });
  });

  it("is beyond the point of no return once it is upgraded, before it is served", () => {
    const reached = (views: readonly PodView[], from: GroupStatus): boolean | undefined => {
      const after = structuredClone(from);
      recordPointOfNoReturn(views, after);
      return after.operation?.pointOfNoReturn;
    };
    expect(reached([waiting(0), waiting(1)], checked)).toBeUndefined();
    const upgraded = pod(0, { role: "recovering", version: "18.1" }, false);
    expect(reached([upgraded, waiting(1)], checked)).toBe(true);
    // A Pod that only restarts in an upgrade one by one.
    expect(reached([upgraded], status)).toBeUndefined();
  });
});
