import type { DeepReadonly } from "@keelson/api-machinery";
import type { NamespaceObject } from "@keelson/api-machinery/kinds";

/** The next action on a Namespace. */
export type NamespaceAction<Node> =
  | { readonly kind: "nothing" }
  /** Deletes these objects. */
  | { readonly kind: "empty"; readonly objects: readonly Node[] }
  /** Waits until these objects are deleted. They are reported by conditions. */
  | { readonly kind: "wait"; readonly remaining: readonly Node[] }
  /** The namespace is empty: removes `kubernetes` from `spec.finalizers`. */
  | { readonly kind: "finalize"; readonly finalizers: readonly string[] };

/** An object of a Namespace. */
export interface NamespacedNode {
  readonly type: { readonly group: string; readonly plural: string };
  readonly isDeleting: boolean;
}

/**
 * Decides what to do with a Namespace, as kube-controller-manager's namespace controller does: once it is being deleted, its objects
 * are deleted, and when none is left it is finalized. Terminating objects are waited for. Pods are deleted before everything else
 * (KEP-5080), so that none runs without the policies and the configuration of its namespace. `isComplete` is false while objects may exist
 * that are not in `contents`, because their kinds cannot be read.
 */
export function decideNamespace<Node extends NamespacedNode>(
  namespace: DeepReadonly<NamespaceObject>,
  contents: readonly Node[],
  isComplete: boolean,
): NamespaceAction<Node> {
  const finalizers = namespace.spec?.finalizers ?? [];
  if (namespace.metadata.deletionTimestamp === undefined || !finalizers.includes("kubernetes")) return { kind: "nothing" };
  if (contents.length === 0 && isComplete)
    return { kind: "finalize", finalizers: finalizers.filter((finalizer) => finalizer !== "kubernetes") };
  const pods = contents.filter(({ type }) => type.group === "" && type.plural === "pods");
  const objects = (pods.length > 0 ? pods : contents).filter((node) => !node.isDeleting);
  if (objects.length > 0) return { kind: "empty", objects };
  // kube-controller-manager counts what remains only after the Pods.
  return { kind: "wait", remaining: pods.length > 0 ? [] : contents };
}
