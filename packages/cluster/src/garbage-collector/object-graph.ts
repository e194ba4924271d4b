import type { DeepReadonly, KubernetesObject, OwnerReference, ResourceType } from "@keelson/api-machinery";

/** What the garbage collector keeps of an object: its kind and the relevant metadata. */
export interface GraphNode {
  readonly type: ResourceType;
  readonly uid: string;
  readonly name: string;
  /** `""` for cluster-scoped objects. */
  readonly namespace: string;
  readonly owners: readonly DeepReadonly<OwnerReference>[];
  readonly isDeleting: boolean;
  readonly finalizers: readonly string[];
}

/** Whether a node is in foreground deletion and waits for its dependents. */
export function isDeletingDependents(node: GraphNode): boolean {
  return node.isDeleting && node.finalizers.includes("foregroundDeletion");
}

/** Whether a node is being deleted and orphans its dependents first. */
export function isOrphaningDependents(node: GraphNode): boolean {
  return node.isDeleting && node.finalizers.includes("orphan");
}

/** The graph node of an object. */
export function nodeOf(type: ResourceType, object: DeepReadonly<KubernetesObject>): GraphNode {
  const { metadata } = object;
  return {
    type,
    uid: metadata.uid ?? "",
    name: metadata.name ?? "",
    namespace: metadata.namespace ?? "",
    owners: metadata.ownerReferences ?? [],
    isDeleting: metadata.deletionTimestamp !== undefined,
    finalizers: metadata.finalizers ?? [],
  };
}

/**
 * Every object of the cluster by uid, with its dependents, and the content of each namespace.
 *
 *     owner uid --> { uids of dependents }      also for owners that do not exist
 *     namespace --> { uids of its objects }
 */
export class ObjectGraph {
  readonly #nodes = new Map<string, GraphNode>();
  readonly #dependents = new Map<string, Set<string>>();
  readonly #namespaces = new Map<string, Set<string>>();

  get(uid: string): GraphNode | undefined {
    return this.#nodes.get(uid);
  }

  /** Adds or replaces a node. Returns the previous one. */
  put(node: GraphNode): GraphNode | undefined {
    const old = this.remove(node.uid);
    this.#nodes.set(node.uid, node);
    for (const owner of node.owners) add(this.#dependents, owner.uid, node.uid);
    if (node.namespace !== "") add(this.#namespaces, node.namespace, node.uid);
    return old;
  }

  /** Removes a node and returns it. */
  remove(uid: string): GraphNode | undefined {
    const node = this.#nodes.get(uid);
    if (node === undefined) return undefined;
    this.#nodes.delete(uid);
    for (const owner of node.owners) take(this.#dependents, owner.uid, uid);
    take(this.#namespaces, node.namespace, uid);
    return node;
  }

  dependentsOf(uid: string): readonly GraphNode[] {
    return this.#resolve(this.#dependents.get(uid));
  }

  /** Objects in a namespace. */
  inNamespace(namespace: string): readonly GraphNode[] {
    return this.#resolve(this.#namespaces.get(namespace));
  }

  all(): IterableIterator<GraphNode> {
    return this.#nodes.values();
  }

  #resolve(uids: ReadonlySet<string> | undefined): readonly GraphNode[] {
    const nodes: GraphNode[] = [];
    for (const uid of uids ?? []) {
      const node = this.#nodes.get(uid);
      if (node) nodes.push(node);
    }
    return nodes;
  }
}

function add(sets: Map<string, Set<string>>, key: string, value: string): void {
  const set = sets.get(key);
  if (set) set.add(value);
  else sets.set(key, new Set([value]));
}

function take(sets: Map<string, Set<string>>, key: string, value: string): void {
  const set = sets.get(key);
  set?.delete(value);
  if (set?.size === 0) sets.delete(key);
}
