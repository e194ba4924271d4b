import type { DeepReadonly } from "@keelson/api-machinery";
import type { NamespaceObject } from "@keelson/api-machinery/kinds";

/** The next action on a Namespace. */
export type NamespaceAction<Node> =
  | { readonly kind: "nothing" }
  /** Deletes these objects. */
  | { readonly kind: "empty"; readonly objects: readonly Node[] }
  /** The namespace is empty: removes `kubernetes` from `spec.finalizers`. */
  | { readonly kind: "finalize"; readonly finalizers: readonly string[] };

/**
 * Decides what to do with a Namespace, as kube-controller-manager's namespace controller does: once it is being deleted, its objects
 * are deleted, and when none is left it is finalized. Terminating objects are waited for.
 */
export function decideNamespace<Node extends { readonly isDeleting: boolean }>(
  namespace: DeepReadonly<NamespaceObject>,
  contents: readonly Node[],
): NamespaceAction<Node> {
  const finalizers = namespace.spec?.finalizers ?? [];
  if (namespace.metadata.deletionTimestamp === undefined || !finalizers.includes("kubernetes")) return { kind: "nothing" };
  if (contents.length === 0)
    return { kind: "finalize", finalizers: finalizers.filter((finalizer) => finalizer !== "kubernetes") };
  const objects = contents.filter((node) => !node.isDeleting);
  return objects.length > 0 ? { kind: "empty", objects } : { kind: "nothing" };
}
