import type { DeepReadonly } from "@keelson/api-machinery";
import { describe, expect, it } from "vitest";
import type { Component, ComponentStatus } from "../../api/component.ts";
import type { Group } from "../../api/group.ts";
import { annotations } from "../../api/names.ts";
import type { Operation } from "../../api/parts.ts";
import { decideComponent } from "./component-decision.ts";

const now = Date.UTC(2026, 0, 1);
const token = "plan/task-1-01/1";
const running = { token, scenario: "update", phase: "Running", startedAt: "2026-01-01T00:00:00Z" } as const;

function componentOf(operation: Partial<Operation>, isCancelled = false): DeepReadonly<Component> {
  return {
    apiVersion: "middleware.io/v1alpha1",
    kind: "Component",
    metadata: {
      name: "cache-redis",
      namespace: "default",
      generation: 2,
      ...(isCancelled ? { annotations: { [annotations.cancelRequest]: token } } : {}),
    },
    spec: { groups: [{ name: "a" }, { name: "b" }], operation: { token, scenario: "update" } },
    status: { operation: { ...running, order: ["a", "b"], ...operation } },
  } as unknown as DeepReadonly<Component>;
}

/** A Group with this progress of the operation. */
function groupOf(name: string, answer: Partial<Operation>): [string, DeepReadonly<Group>] {
  const group = {
    apiVersion: "middleware.io/v1alpha1",
    kind: "Group",
    metadata: { name: `cache-redis-${name}`, namespace: "default", generation: 2 },
    spec: { operation: { token, scenario: "update" } },
    status: { observedGeneration: 2, operation: { ...running, ...answer } },
  };
  return [name, group as unknown as DeepReadonly<Group>];
}

const decide = (component: DeepReadonly<Component>, ...groups: [string, DeepReadonly<Group>][]) =>
  decideComponent({ component, groups: new Map(groups), pluginRef: { name: "redis", namespace: "x" }, now }).effects;
const statusOf = (effects: ReturnType<typeof decide>): ComponentStatus | undefined =>
  effects[0]?.kind === "status" ? (effects[0].status as ComponentStatus) : undefined;

describe("a Component whose operation is cancelled", () => {
  it("cancels it immediately if no Group has observed it", () => {
    expect(statusOf(decide(componentOf({}, true)))?.operation).toMatchObject({ phase: "Cancelled" });
  });

  it("waits for the Group that has started and reports its message", () => {
    const busy = groupOf("a", { message: "restarts a-1" });
    const status = statusOf(decide(componentOf({}, true), busy));
    expect(status?.operation).toMatchObject({ phase: "Running", message: "a: restarts a-1" });
    const gone = groupOf("a", { phase: "Cancelled", message: "went back" });
    expect(statusOf(decide(componentOf({}, true), gone))?.operation).toMatchObject({
      phase: "Cancelled",
      message: "went back",
    });
  });

  it("starts no further Group", () => {
    const done = groupOf("a", { phase: "Succeeded" });
    expect(statusOf(decide(componentOf({}, true), done))?.operation).toMatchObject({ phase: "Cancelled" });
  });
});

it("reports the point of no return as soon as a Group does", () => {
  const busy = groupOf("a", { message: "hands over", pointOfNoReturn: true });
  expect(statusOf(decide(componentOf({}), busy))?.operation).toMatchObject({ phase: "Running", pointOfNoReturn: true });
});

it("accepts a permutation of its groups, and otherwise puts the primary's group last", () => {
  const component = componentOf({});
  const unordered = { ...component, status: { ...component.status, replicas: 2, readyReplicas: 2 } };
  delete (unordered.status.operation as { order?: unknown } | undefined)?.order;
  const withPods = ([name, group]: [string, DeepReadonly<Group>], role: string): [string, DeepReadonly<Group>] => {
    const pods = [{ name: `${name}-0`, role, ready: true, ip: "127.0.0.9" }];
    const primary = role === "primary" ? { primary: { pod: `${name}-0`, epoch: 1 } } : {};
    return [name, { ...group, status: { ...group.status, replicas: 1, readyReplicas: 1, pods, ...primary } } as never];
  };
  const groups = [withPods(groupOf("a", {}), "primary"), withPods(groupOf("b", {}), "replica")] as const;
  const settled = statusOf(decide(unordered, ...groups));
  const [asked] = decide({ ...unordered, ...(settled ? { status: settled } : {}) }, ...groups);
  if (asked?.kind !== "call") throw new Error("no agent is called");
  const orderAfter = (order: string[]) => (asked.after({ kind: "order", order }) as ComponentStatus).operation?.order;
  expect(asked.call).toMatchObject({ method: "GetGroupOrder", groups: ["a", "b"] });
  expect(orderAfter(["a", "b"])).toEqual(["a", "b"]);
  for (const bad of [["a"], ["a", "a"], ["a", "x"]]) expect(orderAfter(bad)).toEqual(["b", "a"]);
});
