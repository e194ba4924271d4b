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

const none = (): readonly GraphNode[] => [];
const among =
  (...nodes: readonly GraphNode[]) =>
  (uid: string): readonly GraphNode[] =>
    nodes.filter(({ owners }) => owners.some((each) => each.uid === uid));

test("an object without owners is kept", () => {
  expect(decideGarbage(node({}), none, states({}))).toEqual({ kind: "nothing" });
});

test("an object whose only owner is absent is deleted in the background", () => {
  expect(decideGarbage(node({ owners: [owner("a")] }), none, states({}))).toEqual({ kind: "delete", policy: "Background" });
});

test("an object with one remaining owner drops its references to absent ones", () => {
  expect(decideGarbage(node({ owners: [owner("a"), owner("b")] }), none, states({ a: "solid" }))).toEqual({
    kind: "dropOwners",
    uids: ["b"],
  });
});

test("an owner in foreground deletion waits only for dependents that block it", () => {
  const deleting = node({ uid: "o", isDeleting: true, finalizers: ["foregroundDeletion"] });
  const blocking = node({ uid: "d", owners: [owner("o", true)] });
  const free = node({ uid: "f", owners: [owner("o")] });
  expect(decideGarbage(deleting, among(blocking, free), states({}))).toEqual({ kind: "visit", dependents: [blocking] });
  expect(decideGarbage(deleting, among(free), states({}))).toEqual({
    kind: "removeFinalizer",
    finalizer: "foregroundDeletion",
  });
});

test("a dependent with its own dependents is deleted in the foreground as well", () => {
  const middle = node({ owners: [owner("o", true)] });
  expect(decideGarbage(middle, among(node({ uid: "leaf", owners: [owner("n", true)] })), states({ o: "waiting" }))).toEqual({
    kind: "delete",
    policy: "Foreground",
  });
  expect(decideGarbage(middle, none, states({ o: "waiting" }))).toEqual({ kind: "delete", policy: "Background" });
});

test("orphaning releases the dependents before the owner", () => {
  const deleting = node({ isDeleting: true, finalizers: ["orphan"] });
  const dependent = node({ uid: "d", owners: [owner("n")] });
  expect(decideGarbage(deleting, among(dependent), states({}))).toEqual({ kind: "orphanDependents", dependents: [dependent] });
  expect(decideGarbage(deleting, none, states({}))).toEqual({ kind: "removeFinalizer", finalizer: "orphan" });
});

test("an object that is already being deleted is left to its finalizers", () => {
  expect(decideGarbage(node({ isDeleting: true, owners: [owner("a")], finalizers: ["x/y"] }), none, states({}))).toEqual({
    kind: "nothing",
  });
});

test("an object whose dependent is in foreground deletion stops blocking its owners, then is deleted", () => {
  const foreground = { isDeleting: true, finalizers: ["foregroundDeletion"] };
  const first = node({ uid: "a", owners: [owner("c", true)], ...foreground });
  const last = (blocks: boolean): GraphNode => node({ uid: "c", owners: [owner("b", blocks)] });
  expect(decideGarbage(last(true), among(first, last(true)), states({ b: "waiting" }))).toEqual({ kind: "unblockOwners" });
  expect(decideGarbage(last(false), among(first, last(false)), states({ b: "waiting" }))).toEqual({
    kind: "delete",
    policy: "Foreground",
  });
});

test("a circle of objects that are all in foreground deletion is broken; a chain waits", () => {
  const foreground = { isDeleting: true, finalizers: ["foregroundDeletion"] };
  const [a, b, c] = [
    node({ uid: "a", owners: [owner("c", true)], ...foreground }),
    node({ uid: "b", owners: [owner("a", true)], ...foreground }),
    node({ uid: "c", owners: [owner("b", true)], ...foreground }),
  ];
  expect(decideGarbage(a, among(a, b, c), states({}))).toEqual({ kind: "unblockOwners" });
  const top = node({ uid: "a", ...foreground });
  const leaf = node({ uid: "d", owners: [owner("c", true)], ...foreground });
  expect(decideGarbage(top, among(b, c, leaf), states({}))).toEqual({ kind: "nothing" });
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
