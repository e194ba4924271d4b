import { describe, expect, it } from "vitest";
import type { GroupStatus } from "../../api/group.ts";
import type { RenderedGroup } from "../../plugin/render-group.ts";
import { changePods } from "../group/parameters.ts";
import type { Next } from "../group/next.ts";
import type { Role } from "../group/observation.ts";
import { reconcileRoles } from "./roles.ts";
import { podView } from "../../testing/pod-view.ts";

const unassigned = { role: "unassigned", primaryHost: "" };
const leader = { role: "primary" };
const status = { primary: { pod: "p-0", epoch: 4 } } as GroupStatus;

const settle = (of: GroupStatus, ...roles: Partial<Role>[]): Next => {
  const views = roles.map((role, ordinal) => podView(ordinal, role));
  return reconcileRoles(views, views, of);
};

describe("a Group without a recorded primary", () => {
  it("promotes the first Pod if none ever had a role", () => {
    expect(settle({}, unassigned, unassigned)).toMatchObject({ kind: "record", message: "p-0 becomes the primary" });
  });

  it("adopts the only Pod that claims to be the primary", () => {
    expect(settle({}, {}, leader)).toMatchObject({ kind: "record", message: "p-1 becomes the primary" });
  });

  it("promotes no Pod if two claim the role, or if only replicas are left", () => {
    expect(settle({}, leader, leader)).toMatchObject({ kind: "wait", message: expect.stringContaining("2 Pods claim") });
    expect(settle({}, {}, {})).toMatchObject({ kind: "wait", message: expect.stringContaining("0 Pods claim") });
  });
});

describe("a Group whose Pods were all restarted", () => {
  const recovering = (epoch: number, keys: number): Partial<Role> => ({ role: "recovering", epoch, keys });

  it("prefers the latest epoch to the most data, which a former primary may have", () => {
    expect(settle({}, recovering(3, 900), recovering(4, 500))).toMatchObject({ message: "p-1 becomes the primary" });
    expect(settle(status, recovering(4, 500), recovering(3, 900))).toMatchObject({
      effects: [{ ip: "127.0.0.10", call: { role: "primary" } }],
    });
    expect(settle(status, recovering(4, 900), recovering(5, 500))).toMatchObject({
      kind: "record",
      message: expect.stringContaining("p-1 becomes the primary"),
    });
  });

  it("prefers the most data of an epoch, and any data to none", () => {
    expect(settle(status, recovering(4, 500), recovering(4, 900))).toMatchObject({
      message: expect.stringContaining("p-1 becomes the primary"),
    });
    expect(settle(status, recovering(4, 0), recovering(3, 900))).toMatchObject({
      message: expect.stringContaining("p-1 becomes the primary"),
    });
  });
});

describe("a Group with a recorded primary", () => {
  it("does not promote a primary that lost its volume while a replica has data", () => {
    expect(settle(status, unassigned, {})).toMatchObject({ kind: "wait", message: expect.stringContaining("lost its volume") });
    expect(settle(status, unassigned, unassigned)).toMatchObject({
      effects: [{ ip: "127.0.0.10", call: { role: "primary" } }],
    });
  });

  it("repoints a replica that follows another server, and a second primary", () => {
    const call = { method: "AssignRole", role: "replica", primary: "127.0.0.10", epoch: 4 };
    expect(settle(status, leader, { primaryHost: "127.0.0.99" })).toMatchObject({ effects: [{ ip: "127.0.0.11", call }] });
    expect(settle(status, leader, leader)).toMatchObject({ effects: [{ ip: "127.0.0.11", call }] });
    expect(settle(status, leader, {})).toEqual({ kind: "settled" });
  });
});

it("changes the current primary last, wherever it is in the recorded order", () => {
  const rendered: RenderedGroup = { instances: [], services: [], hasAgents: true, stopFor: {}, preferredPrimaries: [] };
  const operation = { token: "t", scenario: "update", phase: "Running", startedAt: "", order: ["p-0", "p-1", "p-2"] };
  const wanted = { configHash: "newer" };
  const views = [podView(0, leader, wanted), podView(1, {}, wanted), podView(2, {}, wanted)];
  const next = changePods({} as never, rendered, views, { ...status, operation } as GroupStatus);
  expect(next).toMatchObject({ kind: "do", effects: [{ ip: "127.0.0.11", call: { method: "ReloadConfig" } }] });
});
