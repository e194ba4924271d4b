import { expect, test } from "vitest";
import { decideGarbage, type OwnerState } from "./garbage-decision.ts";
import { type GraphNode, ObjectGraph } from "./object-graph.ts";

const type = { group: "", version: "v1", kind: "ConfigMap", plural: "configmaps", scope: "Namespaced" } as const;
const owner = (uid: string, blockOwnerDeletion = false) => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  name: uid,
  uid,
  blockOwnerDeletion,
});
const node = (over: Partial<GraphNode>): GraphNode => ({
  type,
  uid: "n",
  name: "n",
  namespace: "default",
  owners: [],
  isDeleting: false,
  finalizers: [],
  ...over,
});
const states =
  (known: Record<string, OwnerState>) =>
  (uid: string): OwnerState =>
    known[uid] ?? "dangling";

test("an object without owners is kept", () => {
  expect(decideGarbage(node({}), [], states({}))).toEqual({ kind: "nothing" });
});

test("an object whose only owner is absent is deleted in the background", () => {
  expect(decideGarbage(node({ owners: [owner("a")] }), [], states({}))).toEqual({ kind: "delete", policy: "Background" });
});

test("an object with one remaining owner drops its references to absent ones", () => {
  expect(decideGarbage(node({ owners: [owner("a"), owner("b")] }), [], states({ a: "solid" }))).toEqual({
    kind: "dropOwners",
    uids: ["b"],
  });
});

test("an owner in foreground deletion waits only for dependents that block it", () => {
  const deleting = node({ uid: "o", isDeleting: true, finalizers: ["foregroundDeletion"] });
  const blocking = node({ uid: "d", owners: [owner("o", true)] });
  const free = node({ uid: "f", owners: [owner("o")] });
  expect(decideGarbage(deleting, [blocking, free], states({}))).toEqual({ kind: "visit", dependents: [blocking] });
  expect(decideGarbage(deleting, [free], states({}))).toEqual({ kind: "removeFinalizer", finalizer: "foregroundDeletion" });
});

test("a dependent with dependents of its own is deleted in the foreground as well", () => {
  const middle = node({ owners: [owner("o", true)] });
  expect(decideGarbage(middle, [node({ uid: "leaf", owners: [owner("n", true)] })], states({ o: "waiting" }))).toEqual({
    kind: "delete",
    policy: "Foreground",
  });
  expect(decideGarbage(middle, [], states({ o: "waiting" }))).toEqual({ kind: "delete", policy: "Background" });
});

test("orphaning releases the dependents before the owner", () => {
  const deleting = node({ isDeleting: true, finalizers: ["orphan"] });
  const dependent = node({ uid: "d", owners: [owner("n")] });
  expect(decideGarbage(deleting, [dependent], states({}))).toEqual({ kind: "orphanDependents", dependents: [dependent] });
  expect(decideGarbage(deleting, [], states({}))).toEqual({ kind: "removeFinalizer", finalizer: "orphan" });
});

test("an object that is already being deleted is left to its finalizers", () => {
  expect(decideGarbage(node({ isDeleting: true, owners: [owner("a")], finalizers: ["x/y"] }), [], states({}))).toEqual({
    kind: "nothing",
  });
});

test("the graph follows changes of owners and removals", () => {
  const graph = new ObjectGraph();
  graph.put(node({ uid: "d", owners: [owner("a")] }));
  graph.put(node({ uid: "d", owners: [owner("b")] }));
  expect(graph.dependentsOf("a")).toEqual([]);
  expect(graph.dependentsOf("b").map((each) => each.uid)).toEqual(["d"]);
  expect(graph.inNamespace("default")).toHaveLength(1);
  graph.remove("d");
  expect(graph.inNamespace("default")).toEqual([]);
  expect(graph.dependentsOf("b")).toEqual([]);
});
