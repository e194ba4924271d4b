import { type GraphNode, isDeletingDependents, isOrphaningDependents } from "./object-graph.ts";

/** What is known of one owner that a node names. */
export type OwnerState =
  /** There, and not waiting for its dependents to go. */
  | "solid"
  /** Gone, or another object has its name now. */
  | "dangling"
  /** There, and waiting for this dependent among others. */
  | "waiting";

/** What is to be done about a node now. Several may be needed in turn: each change leads to the next look. */
export type GarbageAction =
  | { readonly kind: "nothing" }
  /** Deletes the node. */
  | { readonly kind: "delete"; readonly policy: "Background" | "Foreground" | "Orphan" }
  /** Removes the references to these owners. */
  | { readonly kind: "dropOwners"; readonly uids: readonly string[] }
  /** Removes this finalizer of the node's own. */
  | { readonly kind: "removeFinalizer"; readonly finalizer: "foregroundDeletion" | "orphan" }
  /** Removes the references to this node from its dependents, then the finalizer. */
  | { readonly kind: "orphanDependents"; readonly dependents: readonly GraphNode[] }
  /** Looks at these dependents, which have to go first. */
  | { readonly kind: "visit"; readonly dependents: readonly GraphNode[] };

/**
 * Decides about one node, as kube-controller-manager's garbage collector does (attemptToDeleteItem, KEP-1040 of the foreground):
 * an object goes when every owner it names is gone or waits for it.
 */
export function decideGarbage(
  node: GraphNode,
  dependents: readonly GraphNode[],
  ownerState: (uid: string) => OwnerState,
): GarbageAction {
  if (isOrphaningDependents(node)) {
    return dependents.length > 0 ? { kind: "orphanDependents", dependents } : { kind: "removeFinalizer", finalizer: "orphan" };
  }
  if (isDeletingDependents(node)) {
    const blocking = dependents.filter((dependent) =>
      dependent.owners.some((owner) => owner.uid === node.uid && owner.blockOwnerDeletion === true),
    );
    return blocking.length > 0
      ? { kind: "visit", dependents: blocking }
      : { kind: "removeFinalizer", finalizer: "foregroundDeletion" };
  }
  if (node.isDeleting || node.owners.length === 0) return { kind: "nothing" };
  const states = node.owners.map((owner) => ({ uid: owner.uid, state: ownerState(owner.uid) }));
  const gone = states.filter(({ state }) => state !== "solid").map(({ uid }) => uid);
  if (gone.length === 0) return { kind: "nothing" };
  if (gone.length < states.length) return { kind: "dropOwners", uids: gone };
  const isWaitedFor = states.some(({ state }) => state === "waiting");
  if (isWaitedFor && dependents.length > 0) return { kind: "delete", policy: "Foreground" };
  if (node.finalizers.includes("orphan")) return { kind: "delete", policy: "Orphan" };
  if (node.finalizers.includes("foregroundDeletion")) return { kind: "delete", policy: "Foreground" };
  return { kind: "delete", policy: "Background" };
}
