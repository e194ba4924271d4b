import { isConflict, isNotFound, type KubernetesObject, parseApiVersion } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Logger } from "@keelson/controller";
import { KeyedWorkers } from "../keyed-workers.ts";
import { decideGarbage, type GarbageAction, type OwnerState } from "./garbage-decision.ts";
import { type GraphNode, isDeletingDependents, isOrphaningDependents } from "./object-graph.ts";
import { type KindSource, type NodeListener, ObjectMonitor } from "./object-monitor.ts";

/** Options of {@link startGarbageCollector}. */
export interface GarbageCollectorOptions {
  readonly client: Client;
  readonly kinds: KindSource;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
}

/** A running garbage collector. */
export interface GarbageCollector {
  readonly monitor: ObjectMonitor;
  /** Calls `listener` on every change of an object that {@link monitor} follows. Returns a function that unsubscribes. */
  onNode(listener: NodeListener): () => void;
  /** Calls `listener` whenever every served kind has been listed. Returns a function that unsubscribes. */
  onSynced(listener: () => void): () => void;
  stop(): Promise<void>;
}

/**
 * Deletes objects whose owners no longer exist and completes foreground and orphaning deletion, as kube-controller-manager's garbage
 * collector does. It is driven by watches; an owner missing from the graph is confirmed by a GET before anything is deleted.
 */
export function startGarbageCollector(options: GarbageCollectorOptions): GarbageCollector {
  const { client, clock, random, log } = options;
  const listeners = new Set<NodeListener>();
  const syncListeners = new Set<() => void>();
  const workers = new KeyedWorkers({ clock, random, log, concurrency: 8, work: (uid, signal) => collect(uid, signal) });

  const concerns = (node: GraphNode): boolean =>
    node.owners.length > 0 || isDeletingDependents(node) || isOrphaningDependents(node);
  const onNode: NodeListener = (change) => {
    const { node, previous } = change;
    if (change.type === "remove") {
      for (const dependent of monitor.graph.dependentsOf(node.uid)) workers.add(dependent.uid);
    } else {
      if (concerns(node)) workers.add(node.uid);
      // A dependent that drops an owner reference may be the last one that blocks the owner.
      if (isDeletingDependents(node)) for (const dependent of monitor.graph.dependentsOf(node.uid)) workers.add(dependent.uid);
    }
    for (const owner of [...node.owners, ...(previous?.owners ?? [])]) {
      const known = monitor.graph.get(owner.uid);
      if (known && known.isDeleting) workers.add(known.uid);
    }
    for (const listener of listeners) listener(change);
  };
  const onKind = (): void => {
    // An owner that looked absent may not have been listed yet.
    if (!monitor.isSynced) return;
    for (const node of monitor.graph.all()) if (concerns(node)) workers.add(node.uid);
    for (const listener of syncListeners) listener();
  };
  const monitor = new ObjectMonitor({ ...options, onNode: (change) => onNode(change), onKind: () => onKind() });

  const collect = async (uid: string, signal: AbortSignal): Promise<void> => {
    const node = monitor.graph.get(uid);
    if (node === undefined || !monitor.isSynced) return;
    const states = new Map<string, OwnerState>();
    for (const owner of node.owners) states.set(owner.uid, await ownerState(node, owner, signal));
    const action = decideGarbage(
      node,
      (owner) => monitor.graph.dependentsOf(owner),
      (owner) => states.get(owner) ?? "solid",
    );
    await act(node, action, signal);
  };

  const ownerState = async (node: GraphNode, owner: GraphNode["owners"][number], signal: AbortSignal): Promise<OwnerState> => {
    const known = monitor.graph.get(owner.uid);
    if (known !== undefined) {
      // Owners in another namespace count as absent: such references are not allowed.
      if (known.namespace !== "" && known.namespace !== node.namespace) return "dangling";
      return isDeletingDependents(known) ? "waiting" : "solid";
    }
    const { group, version } = parseApiVersion(owner.apiVersion);
    const type = monitor.typeOfOwner(group, owner.kind);
    // A kind that is not served may return with its objects, so its absence proves nothing.
    if (type === undefined) return "solid";
    try {
      const key = { name: owner.name, ...(type.scope === "Namespaced" ? { namespace: node.namespace } : {}) };
      const live = await client.get({ ...type, version: type.version || version }, key, { signal });
      return live.metadata.uid === owner.uid ? "solid" : "dangling";
    } catch (error) {
      if (isNotFound(error)) return "dangling";
      throw error;
    }
  };

  const act = async (node: GraphNode, action: GarbageAction, signal: AbortSignal): Promise<void> => {
    switch (action.kind) {
      case "nothing":
        return;
      case "delete":
        log.info(
          { kind: node.type.kind, namespace: node.namespace, name: node.name, policy: action.policy },
          "deleting object whose owners no longer exist",
        );
        await ignoreGone(
          client.delete(node.type, keyOf(node), { propagationPolicy: action.policy, preconditions: { uid: node.uid }, signal }),
        );
        return;
      case "dropOwners":
        await dropOwners(node, new Set(action.uids), signal);
        return;
      case "removeFinalizer":
        await change(node, signal, (object) => ({
          finalizers: (object.metadata.finalizers ?? []).filter((each) => each !== action.finalizer),
        }));
        return;
      case "orphanDependents":
        for (const dependent of action.dependents) await dropOwners(dependent, new Set([node.uid]), signal);
        return;
      case "unblockOwners":
        await change(node, signal, (object) => ({
          ownerReferences: (object.metadata.ownerReferences ?? []).map((owner) => ({ ...owner, blockOwnerDeletion: false })),
        }));
        return;
      case "visit":
        for (const dependent of action.dependents) workers.add(dependent.uid);
    }
  };

  const dropOwners = (node: GraphNode, uids: ReadonlySet<string>, signal: AbortSignal): Promise<void> =>
    change(node, signal, (object) => ({
      ownerReferences: (object.metadata.ownerReferences ?? []).filter((owner) => !uids.has(owner.uid)),
    }));

  /** Edits a list in the metadata; the server rejects the patch if the object has changed meanwhile. */
  const change = async (
    node: GraphNode,
    signal: AbortSignal,
    edit: (object: Pick<KubernetesObject, "metadata">) => Record<string, unknown>,
  ): Promise<void> => {
    await ignoreGone(
      (async () => {
        const live = await client.get(node.type, keyOf(node), { signal });
        if (live.metadata.uid !== node.uid) return;
        const { resourceVersion, uid } = live.metadata;
        const body = { metadata: { ...edit(live), resourceVersion, uid } };
        await client.patch(node.type, keyOf(node), { type: "merge", body }, { signal });
      })(),
    );
  };

  return {
    monitor,
    onNode(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    onSynced(listener) {
      syncListeners.add(listener);
      return () => void syncListeners.delete(listener);
    },
    async stop() {
      await monitor.stop();
      await workers.stop();
    },
  };
}

/** The request key of a node. */
export function keyOf(node: Pick<GraphNode, "name" | "namespace" | "type">): {
  readonly name: string;
  readonly namespace?: string;
} {
  return node.type.scope === "Namespaced" ? { namespace: node.namespace, name: node.name } : { name: node.name };
}

/** Ignores NotFound, and conflicts that mean the object was replaced or is already being deleted. */
async function ignoreGone(request: Promise<unknown>): Promise<void> {
  try {
    await request;
  } catch (error) {
    if (!isNotFound(error) && !isConflict(error)) throw error;
    if (isConflict(error) && !/precondition|uid/i.test(error.message)) throw error;
  }
}
