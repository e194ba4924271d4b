import { isConflict, isMissingKind, isNotFound, type KubernetesObject, parseApiVersion } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { CacheOptions, Logger } from "@keelson/controller";
import { KeyedWorkers } from "../keyed-workers.ts";
import { decideGarbage, type GarbageAction, type OwnerState } from "./garbage-decision.ts";
import { type GraphNode, isDeletingDependents, isOrphaningDependents } from "./object-graph.ts";
import { type KindSource, type NodeListener, ObjectMonitor } from "./object-monitor.ts";

/** Options of {@link startGarbageCollector}. */
export interface GarbageCollectorOptions {
  readonly client: Client;
  readonly kinds: KindSource;
  /** See `CacheOptions.initialList`. */
  readonly initialList?: CacheOptions["initialList"];
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
}

/** A running garbage collector. */
export interface GarbageCollector {
  readonly monitor: ObjectMonitor;
  /** Calls `listener` on every change of an object that {@link monitor} follows. Returns a function that unsubscribes. */
  onNode(listener: NodeListener): () => void;
  /** Calls `listener` whenever the kinds change and {@link monitor} is settled. Returns a function that unsubscribes. */
  onSettled(listener: () => void): () => void;
  stop(): Promise<void>;
}

/**
 * Deletes objects whose owners no longer exist and completes foreground and orphaning deletion, as kube-controller-manager's garbage
 * collector does. It is driven by watches; an owner missing from the graph is confirmed by a GET before anything is deleted.
 */
export function startGarbageCollector(options: GarbageCollectorOptions): GarbageCollector {
  return new WatchingCollector(options);
}

class WatchingCollector implements GarbageCollector {
  readonly monitor: ObjectMonitor;
  readonly #client: Client;
  readonly #log: Logger;
  readonly #workers: KeyedWorkers;
  readonly #listeners = new Set<NodeListener>();
  readonly #settledListeners = new Set<() => void>();

  constructor(options: GarbageCollectorOptions) {
    const { client, clock, random, log } = options;
    this.#client = client;
    this.#log = log;
    this.#workers = new KeyedWorkers({
      clock,
      random,
      log,
      concurrency: 8,
      work: (uid, signal) => this.#collect(uid, signal),
    });
    this.monitor = new ObjectMonitor({
      ...options,
      onNode: (change) => this.#nodeChanged(change),
      onKind: () => this.#kindListed(),
    });
  }

  onNode(listener: NodeListener): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  onSettled(listener: () => void): () => void {
    this.#settledListeners.add(listener);
    return () => void this.#settledListeners.delete(listener);
  }

  async stop(): Promise<void> {
    await this.monitor.stop();
    await this.#workers.stop();
  }

  #nodeChanged(change: Parameters<NodeListener>[0]): void {
    const { node, previous } = change;
    const { graph } = this.monitor;
    if (change.type === "remove") {
      for (const dependent of graph.dependentsOf(node.uid)) this.#workers.add(dependent.uid);
    } else {
      if (mayNeedWork(node)) this.#workers.add(node.uid);
      // A dependent that drops an owner reference may be the last one that blocks the owner.
      if (isDeletingDependents(node)) for (const dependent of graph.dependentsOf(node.uid)) this.#workers.add(dependent.uid);
    }
    for (const owner of [...node.owners, ...(previous?.owners ?? [])]) {
      const known = graph.get(owner.uid);
      if (known && known.isDeleting) this.#workers.add(known.uid);
    }
    for (const listener of this.#listeners) listener(change);
  }

  #kindListed(): void {
    // An owner that looked absent may not have been listed yet.
    if (!this.monitor.isSettled) return;
    for (const node of this.monitor.graph.all()) if (mayNeedWork(node)) this.#workers.add(node.uid);
    for (const listener of this.#settledListeners) listener();
  }

  async #collect(uid: string, signal: AbortSignal): Promise<void> {
    const { graph } = this.monitor;
    const node = graph.get(uid);
    if (node === undefined || !this.monitor.isSettled) return;
    const states = new Map<string, OwnerState>();
    for (const owner of node.owners) states.set(owner.uid, await this.#ownerState(node, owner, signal));
    const action = decideGarbage(
      node,
      (owner) => graph.dependentsOf(owner),
      (owner) => states.get(owner) ?? "solid",
    );
    await this.#act(node, action, signal);
  }

  async #ownerState(node: GraphNode, owner: GraphNode["owners"][number], signal: AbortSignal): Promise<OwnerState> {
    const known = this.monitor.graph.get(owner.uid);
    if (known !== undefined) {
      // Owners in another namespace count as absent: such references are not allowed.
      if (known.namespace !== "" && known.namespace !== node.namespace) return "dangling";
      return isDeletingDependents(known) ? "waiting" : "solid";
    }
    if (this.monitor.wasDeleted(owner.uid)) return "dangling";
    const { group, version } = parseApiVersion(owner.apiVersion);
    const type = this.monitor.typeOfOwner(group, owner.kind);
    // A kind that is not served may return with its objects, so its absence proves nothing.
    if (type === undefined) return "solid";
    try {
      const key = { name: owner.name, ...(type.scope === "Namespaced" ? { namespace: node.namespace } : {}) };
      const live = await this.#client.get({ ...type, version: type.version || version }, key, { signal });
      return live.metadata.uid === owner.uid ? "solid" : "dangling";
    } catch (error) {
      // The kind was removed since it was discovered.
      if (isMissingKind(error)) return "solid";
      if (isNotFound(error)) return "dangling";
      throw error;
    }
  }

  async #act(node: GraphNode, action: GarbageAction, signal: AbortSignal): Promise<void> {
    switch (action.kind) {
      case "nothing":
        return;
      case "delete":
        return this.#delete(node, action.policy, signal);
      case "dropOwners":
        return this.#dropOwners(node, new Set(action.uids), signal);
      case "removeFinalizer":
        return this.#change(node, signal, (object) => ({
          finalizers: (object.metadata.finalizers ?? []).filter((each) => each !== action.finalizer),
        }));
      case "orphanDependents":
        for (const dependent of action.dependents) await this.#dropOwners(dependent, new Set([node.uid]), signal);
        return;
      case "unblockOwners":
        return this.#change(node, signal, (object) => ({
          ownerReferences: (object.metadata.ownerReferences ?? []).map((owner) => ({ ...owner, blockOwnerDeletion: false })),
        }));
      case "visit":
        for (const dependent of action.dependents) this.#workers.add(dependent.uid);
    }
  }

  async #delete(node: GraphNode, policy: DeletePolicy, signal: AbortSignal): Promise<void> {
    const { type, namespace, name, uid } = node;
    this.#log.info({ kind: type.kind, namespace, name, policy }, "deleting object whose owners no longer exist");
    await ignoreNotFound(this.#client.delete(type, keyOf(node), { propagationPolicy: policy, preconditions: { uid }, signal }));
  }

  #dropOwners(node: GraphNode, uids: ReadonlySet<string>, signal: AbortSignal): Promise<void> {
    return this.#change(node, signal, (object) => ({
      ownerReferences: (object.metadata.ownerReferences ?? []).filter((owner) => !uids.has(owner.uid)),
    }));
  }

  /** Edits a list in the metadata; the server rejects the patch if the object has changed in the meantime. */
  async #change(
    node: GraphNode,
    signal: AbortSignal,
    edit: (object: Pick<KubernetesObject, "metadata">) => Record<string, unknown>,
  ): Promise<void> {
    await ignoreNotFound(
      (async () => {
        const live = await this.#client.get(node.type, keyOf(node), { signal });
        if (live.metadata.uid !== node.uid) return;
        const { resourceVersion, uid } = live.metadata;
        const body = { metadata: { ...edit(live), resourceVersion, uid } };
        await this.#client.patch(node.type, keyOf(node), { type: "merge", body }, { signal });
      })(),
    );
  }
}

type DeletePolicy = Extract<GarbageAction, { readonly kind: "delete" }>["policy"];

/** Whether a node has owners that may be absent, or a deletion mode that needs work. */
function mayNeedWork(node: GraphNode): boolean {
  return node.owners.length > 0 || isDeletingDependents(node) || isOrphaningDependents(node);
}

/** The request key of a node. */
export function keyOf(node: Pick<GraphNode, "name" | "namespace" | "type">): {
  readonly name: string;
  readonly namespace?: string;
} {
  return node.type.scope === "Namespaced" ? { namespace: node.namespace, name: node.name } : { name: node.name };
}

/** Ignores NotFound, and conflicts that mean the object was replaced or is already being deleted. */
async function ignoreNotFound(request: Promise<unknown>): Promise<void> {
  try {
    await request;
  } catch (error) {
    if (!isNotFound(error) && !isConflict(error)) throw error;
    if (isConflict(error) && !/precondition|uid/i.test(error.message)) throw error;
  }
}
