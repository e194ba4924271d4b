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

test("an object without owners stays", () => {
  expect(decideGarbage(node({}), [], states({}))).toEqual({ kind: "nothing" });
});

test("an object whose only owner is gone is deleted in the background", () => {
  expect(decideGarbage(node({ owners: [owner("a")] }), [], states({}))).toEqual({ kind: "delete", policy: "Background" });
});

test("while one owner is there, references to the others are dropped", () => {
  expect(decideGarbage(node({ owners: [owner("a"), owner("b")] }), [], states({ a: "solid" }))).toEqual({
    kind: "dropOwners",
    uids: ["b"],
  });
});

test("an owner deleted in the foreground waits for dependents that block it, and for no others", () => {
  const deleting = node({ uid: "o", isDeleting: true, finalizers: ["foregroundDeletion"] });
  const blocking = node({ uid: "d", owners: [owner("o", true)] });
  const free = node({ uid: "f", owners: [owner("o")] });
  expect(decideGarbage(deleting, [blocking, free], states({}))).toEqual({ kind: "visit", dependents: [blocking] });
  expect(decideGarbage(deleting, [free], states({}))).toEqual({ kind: "removeFinalizer", finalizer: "foregroundDeletion" });
});

test("a dependent of such an owner that has dependents itself is deleted in the foreground too", () => {
  const middle = node({ owners: [owner("o", true)] });
  expect(decideGarbage(middle, [node({ uid: "leaf", owners: [owner("n", true)] })], states({ o: "waiting" }))).toEqual({
    kind: "delete",
    policy: "Foreground",
  });
  expect(decideGarbage(middle, [], states({ o: "waiting" }))).toEqual({ kind: "delete", policy: "Background" });
});

test("orphaning lets go of the dependents first, of the owner then", () => {
  const deleting = node({ isDeleting: true, finalizers: ["orphan"] });
  const dependent = node({ uid: "d", owners: [owner("n")] });
  expect(decideGarbage(deleting, [dependent], states({}))).toEqual({ kind: "orphanDependents", dependents: [dependent] });
  expect(decideGarbage(deleting, [], states({}))).toEqual({ kind: "removeFinalizer", finalizer: "orphan" });
});

test("an object that is being deleted already is left to its finalizers", () => {
  expect(decideGarbage(node({ isDeleting: true, owners: [owner("a")], finalizers: ["x/y"] }), [], states({}))).toEqual({
    kind: "nothing",
  });
});

test("the graph follows objects that change owners and namespaces that empty", () => {
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
