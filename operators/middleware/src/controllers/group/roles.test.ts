import { describe, expect, it } from "vitest";
import type { GroupStatus } from "../../api/group.ts";
import type { RenderedGroup } from "../../plugin/render-group.ts";
import { changePods } from "./parameters.ts";
import type { Next } from "./next.ts";
import type { Role } from "./observation.ts";
import { settleRoles } from "./roles.ts";
import { viewOf } from "../../testing/view-of.ts";

const unassigned = { role: "unassigned", primaryHost: "" };
const leader = { role: "primary" };
const status = { primary: { pod: "p-0", epoch: 4 } } as GroupStatus;

const settle = (of: GroupStatus, ...roles: Partial<Role>[]): Next => {
  const views = roles.map((role, ordinal) => viewOf(ordinal, role));
  return settleRoles(views, views, of);
};

describe("roles of a Group that has no primary on record", () => {
  it("are given to the first of Pods that never had one", () => {
    expect(settle({}, unassigned, unassigned)).toMatchObject({ kind: "record", message: "p-0 becomes the primary" });
  });

  it("follow the one Pod that says it is the primary", () => {
    expect(settle({}, {}, leader)).toMatchObject({ kind: "record", message: "p-1 becomes the primary" });
  });

  it("are given to nobody where two say so, or where only replicas are left", () => {
    expect(settle({}, leader, leader)).toMatchObject({ kind: "wait", message: expect.stringContaining("2 say they are") });
    expect(settle({}, {}, {})).toMatchObject({ kind: "wait", message: expect.stringContaining("0 say they are") });
  });
});

describe("roles of a Group that has a primary on record", () => {
  it("are not given to a primary without its volume while a replica still has data", () => {
    expect(settle(status, unassigned, {})).toMatchObject({ kind: "wait", message: expect.stringContaining("lost its volume") });
    expect(settle(status, unassigned, unassigned)).toMatchObject({
      effects: [{ ip: "127.0.0.10", call: { role: "primary" } }],
    });
  });

  it("bring a replica back that follows another, and a second primary", () => {
    const call = { method: "AssignRole", role: "replica", primary: "127.0.0.10", epoch: 4 };
    expect(settle(status, leader, { primaryHost: "127.0.0.99" })).toMatchObject({ effects: [{ ip: "127.0.0.11", call }] });
    expect(settle(status, leader, leader)).toMatchObject({ effects: [{ ip: "127.0.0.11", call }] });
    expect(settle(status, leader, {})).toEqual({ kind: "settled" });
  });
});

it("changes whoever is the primary by now last, wherever the order of the operation has it", () => {
  const rendered: RenderedGroup = { instances: [], services: [], parameters: {}, configHash: "newer" };
  const operation = { token: "t", scenario: "update", phase: "Running", startedAt: "", order: ["p-0", "p-1", "p-2"] };
  const views = [viewOf(0, leader), viewOf(1, {}), viewOf(2, {})];
  const next = changePods({} as never, rendered, views, { ...status, operation } as GroupStatus);
  expect(next).toMatchObject({ kind: "do", effects: [{ ip: "127.0.0.11", call: { method: "ReloadConfig" } }] });
});
