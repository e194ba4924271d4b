import { type GraphNode, isDeletingDependents, isOrphaningDependents } from "./object-graph.ts";

/** The state of one owner that a node references. */
export type OwnerState =
  /** Exists and is not waiting for its dependents. */
  | "solid"
  /** Does not exist, or another object has its name. */
  | "dangling"
  /** Exists and waits for this dependent to be deleted. */
  | "waiting";

/** The next action on a node. Several may follow one another: each change triggers another decision. */
export type GarbageAction =
  | { readonly kind: "nothing" }
  /** Deletes the node. */
  | { readonly kind: "delete"; readonly policy: "Background" | "Foreground" | "Orphan" }
  /** Removes the references to these owners. */
  | { readonly kind: "dropOwners"; readonly uids: readonly string[] }
  /** Removes one of the node's own finalizers. */
  | { readonly kind: "removeFinalizer"; readonly finalizer: "foregroundDeletion" | "orphan" }
  /** Removes the references to this node from its dependents, then the finalizer. */
  | { readonly kind: "orphanDependents"; readonly dependents: readonly GraphNode[] }
  /** Processes these dependents, which must be deleted first. */
  | { readonly kind: "visit"; readonly dependents: readonly GraphNode[] };

/**
 * Decides what to do with one node, as kube-controller-manager's garbage collector does (`attemptToDeleteItem`): an object is deleted
 * when every owner it references is absent or waits for it.
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
  const unsolid = states.filter(({ state }) => state !== "solid").map(({ uid }) => uid);
  if (unsolid.length === 0) return { kind: "nothing" };
  if (unsolid.length < states.length) return { kind: "dropOwners", uids: unsolid };
  const isBlocking = states.some(({ state }) => state === "waiting");
  if (isBlocking && dependents.length > 0) return { kind: "delete", policy: "Foreground" };
  if (node.finalizers.includes("orphan")) return { kind: "delete", policy: "Orphan" };
  if (node.finalizers.includes("foregroundDeletion")) return { kind: "delete", policy: "Foreground" };
  return { kind: "delete", policy: "Background" };
}
