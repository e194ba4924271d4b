import { type GraphNode, isDeletingDependents, isOrphaningDependents } from "./object-graph.ts";

/** The state of one owner that a node references. */
export type OwnerState =
  /** Exists and is not waiting for its dependents. */
  | "solid"
  /** Does not exist, or another object has its name. */
  | "dangling"
  /** Exists and waits for its dependents to be deleted. */
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
  | { readonly kind: "visit"; readonly dependents: readonly GraphNode[] }
  /** Clears `blockOwnerDeletion` in the node's owner references, because the node is part of a circle of owners. */
  | { readonly kind: "unblockOwners" };

/**
 * Decides what to do with one node, as kube-controller-manager's garbage collector does (`attemptToDeleteItem`,
 * `processDeletingDependentsItem`): an object is deleted when every owner it references is absent or waits for it.
 *
 * Objects that own each other in a circle would wait for one another forever. A node whose dependent is already in foreground deletion
 * is treated as part of a circle, as in kube-controller-manager, and stops blocking its owners. That test can miss a circle when all its
 * members are deleted at the same time, so circles among nodes in foreground deletion are detected as well.
 */
export function decideGarbage(
  node: GraphNode,
  dependentsOf: (uid: string) => readonly GraphNode[],
  ownerState: (uid: string) => OwnerState,
): GarbageAction {
  const dependents = dependentsOf(node.uid);
  if (isOrphaningDependents(node)) {
    return dependents.length > 0 ? { kind: "orphanDependents", dependents } : { kind: "removeFinalizer", finalizer: "orphan" };
  }
  if (isDeletingDependents(node)) return decideForeground(node, dependentsOf);
  if (node.isDeleting || node.owners.length === 0) return { kind: "nothing" };
  const states = node.owners.map((owner) => ({ uid: owner.uid, state: ownerState(owner.uid) }));
  const unsolid = states.filter(({ state }) => state !== "solid").map(({ uid }) => uid);
  if (unsolid.length === 0) return { kind: "nothing" };
  if (unsolid.length < states.length) return { kind: "dropOwners", uids: unsolid };
  if (states.some(({ state }) => state === "waiting") && dependents.length > 0) {
    // The next decision, on the unblocked node, deletes it.
    if (dependents.some(isDeletingDependents) && isBlocking(node)) return { kind: "unblockOwners" };
    return { kind: "delete", policy: "Foreground" };
  }
  if (node.finalizers.includes("orphan")) return { kind: "delete", policy: "Orphan" };
  if (node.finalizers.includes("foregroundDeletion")) return { kind: "delete", policy: "Foreground" };
  return { kind: "delete", policy: "Background" };
}

function decideForeground(node: GraphNode, dependentsOf: (uid: string) => readonly GraphNode[]): GarbageAction {
  const blocking = blockingDependents(node, dependentsOf);
  if (blocking.length === 0) return { kind: "removeFinalizer", finalizer: "foregroundDeletion" };
  const pending = blocking.filter((dependent) => !isDeletingDependents(dependent));
  // Dependents in foreground deletion are processed by their own events; visiting them from here would never end in a circle.
  if (pending.length > 0) return { kind: "visit", dependents: pending };
  return isInCircle(node, dependentsOf) ? { kind: "unblockOwners" } : { kind: "nothing" };
}

/** Whether a node in foreground deletion waits, through blocking dependents in foreground deletion, for itself. */
function isInCircle(node: GraphNode, dependentsOf: (uid: string) => readonly GraphNode[]): boolean {
  const reached = new Set<string>();
  const open = [node];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    for (const dependent of blockingDependents(next, dependentsOf)) {
      if (dependent.uid === node.uid) return true;
      if (!isDeletingDependents(dependent) || reached.has(dependent.uid)) continue;
      reached.add(dependent.uid);
      open.push(dependent);
    }
  }
  return false;
}

function blockingDependents(node: GraphNode, dependentsOf: (uid: string) => readonly GraphNode[]): readonly GraphNode[] {
  return dependentsOf(node.uid).filter((dependent) =>
    dependent.owners.some((owner) => owner.uid === node.uid && owner.blockOwnerDeletion === true),
  );
}

function isBlocking(node: GraphNode): boolean {
  return node.owners.some((owner) => owner.blockOwnerDeletion === true);
}
