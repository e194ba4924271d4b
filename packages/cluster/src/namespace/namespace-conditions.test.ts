import { expect, test } from "vitest";
import { terminatingConditions } from "./namespace-conditions.ts";

const object = (plural: string, finalizers: readonly string[] = []) => ({ type: { group: "", plural }, finalizers });
const statuses = (conditions: ReturnType<typeof terminatingConditions>) =>
  conditions?.map(({ status, reason, message }) => [status, reason, message]);

test("a deletion that waits for Pods reports no failure and nothing that remains", () => {
  const conditions = terminatingConditions([], [], "2026-01-01T00:00:00Z");
  expect(conditions?.map(({ type, status }) => [type, status])).toEqual([
    ["NamespaceDeletionDiscoveryFailure", "False"],
    ["NamespaceDeletionGroupVersionParsingFailure", "False"],
    ["NamespaceDeletionContentFailure", "False"],
    ["NamespaceContentRemaining", "False"],
    ["NamespaceFinalizersRemaining", "False"],
  ]);
  expect(terminatingConditions(conditions ?? [], [], "2026-01-01T00:00:09Z")).toBeUndefined();
});

test("remaining objects are counted by resource and by finalizer", () => {
  const remaining = [object("secrets", ["example.com/keep"]), object("configmaps"), object("secrets", ["example.com/keep"])];
  expect(statuses(terminatingConditions([], remaining, "2026-01-01T00:00:00Z"))?.slice(3)).toEqual([
    [
      "True",
      "SomeResourcesRemain",
      "Some resources are remaining: configmaps. has 1 resource instances, secrets. has 2 resource instances",
    ],
    [
      "True",
      "SomeFinalizersRemain",
      "Some content in the namespace has finalizers remaining: example.com/keep in 2 resource instances",
    ],
  ]);
});

test("a condition keeps its transition time while its status stays the same, and other conditions are kept", () => {
  const other = { type: "Other", status: "True", lastTransitionTime: "2025-01-01T00:00:00Z" } as const;
  const first = terminatingConditions([other], [object("secrets"), object("configmaps")], "2026-01-01T00:00:00Z") ?? [];
  const next = terminatingConditions(first, [object("secrets")], "2026-01-01T00:00:09Z");
  expect(next?.[0]).toEqual(other);
  expect(next?.every(({ lastTransitionTime }) => lastTransitionTime !== "2026-01-01T00:00:09Z")).toBe(true);
  expect(next?.[4]?.message).toBe("Some resources are remaining: secrets. has 1 resource instances");
});

test("stale group versions and kinds that cannot be listed are failures", () => {
  const failures = {
    staleVersions: ["b.example.com/v1", "a.example.com/v1"],
    unlistedKinds: [{ group: "c.example.com", plural: "lamps" }],
  };
  const conditions = terminatingConditions([], [], "2026-01-01T00:00:00Z", failures);
  expect([statuses(conditions)?.[0], statuses(conditions)?.[2]]).toEqual([
    [
      "True",
      "DiscoveryFailed",
      "Discovery failed for some groups, 2 failing: unable to retrieve the complete list of server APIs: " +
        "a.example.com/v1: stale GroupVersion discovery: a.example.com/v1, b.example.com/v1: stale GroupVersion discovery: b.example.com/v1",
    ],
    ["True", "ContentDeletionFailed", "Failed to delete all resource types, 1 remaining: lamps.c.example.com cannot be listed"],
  ]);
});
