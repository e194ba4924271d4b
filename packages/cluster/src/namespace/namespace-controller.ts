import { type DeepReadonly, isConflict, isNotFound } from "@keelson/api-machinery";
import { Namespace, type NamespaceObject } from "@keelson/api-machinery/kinds";
import type { Clock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Logger } from "@keelson/controller";
import { Informer } from "@keelson/controller/informer";
import { type GarbageCollector, keyOf } from "../garbage-collector/garbage-collector.ts";
import { KeyedWorkers } from "../keyed-workers.ts";
import { decideNamespace } from "./namespace-decision.ts";

/** Options of {@link startNamespaceController}. */
export interface NamespaceControllerOptions {
  readonly client: Client;
  /** Knows the content of each namespace. */
  readonly collector: GarbageCollector;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
}

/** Deletes the content of terminating namespaces and finalizes them, as kube-controller-manager's namespace controller does. */
export function startNamespaceController(options: NamespaceControllerOptions): { stop(): Promise<void> } {
  const { client, collector, clock, random, log } = options;
  const stop = new AbortController();
  const known = new Map<string, DeepReadonly<NamespaceObject>>();
  let isListed = false;

  const isAbsent = async (name: string, signal: AbortSignal): Promise<boolean> => {
    if (collector.monitor.graph.inNamespace(name).length === 0) return false;
    return client.get(Namespace, { name }, { signal }).then(
      () => false,
      (error: unknown) => {
        if (isNotFound(error)) return true;
        throw error;
      },
    );
  };

  const reconcile = async (name: string, signal: AbortSignal): Promise<void> => {
    if (!collector.monitor.isSynced) return;
    // An object created while its namespace was being deleted can outlive it. It is deleted as well.
    const namespace = known.get(name) ?? (isListed && (await isAbsent(name, signal)) ? absentNamespace(name) : undefined);
    if (namespace === undefined) return;
    const action = decideNamespace(namespace, collector.monitor.graph.inNamespace(name));
    if (action.kind === "empty") {
      for (const node of action.objects) {
        const options = { propagationPolicy: "Background", preconditions: { uid: node.uid }, signal } as const;
        await ignoreNotFound(client.delete(node.type, keyOf(node), options));
      }
    } else if (action.kind === "finalize") {
      log.info({ namespace: name }, "namespace is empty; removing its finalizer");
      const empty = { ...namespace, spec: { ...namespace.spec, finalizers: action.finalizers } };
      await ignoreNotFound(client.update(Namespace, empty, { subresource: "finalize", signal }));
    }
  };

  const workers = new KeyedWorkers({ clock, random, log, concurrency: 2, work: reconcile });
  const informer = new Informer({
    client,
    type: Namespace,
    clock,
    random,
    log,
    onEffect(effect) {
      if (effect.kind === "replace") {
        known.clear();
        isListed = true;
      }
      for (const object of effect.kind === "replace" ? effect.objects : [effect.object]) {
        const name = object.metadata.name ?? "";
        if (effect.kind === "remove") known.delete(name);
        else known.set(name, object);
        workers.add(name);
      }
    },
  });
  const isTerminating = (name: string): boolean => {
    const namespace = known.get(name);
    return namespace === undefined ? isListed : namespace.metadata.deletionTimestamp !== undefined;
  };
  const unsubscribe = collector.onNode(({ node }) => {
    if (node.namespace !== "" && isTerminating(node.namespace)) workers.add(node.namespace);
  });
  const unsubscribeKinds = collector.onSynced(() => {
    for (const name of known.keys()) if (isTerminating(name)) workers.add(name);
  });
  const running = informer.run(stop.signal);
  return {
    async stop() {
      unsubscribe();
      unsubscribeKinds();
      stop.abort();
      await workers.stop();
      await running;
    },
  };
}

/** A placeholder for a namespace that no longer exists and needs no finalizing. */
function absentNamespace(name: string): NamespaceObject {
  return {
    apiVersion: "v1",
    kind: "Namespace",
    metadata: { name, deletionTimestamp: "1970-01-01T00:00:00Z" },
    spec: { finalizers: ["kubernetes"] },
  };
}

/** Ignores NotFound, and conflicts that mean another object has this name. */
async function ignoreNotFound(request: Promise<unknown>): Promise<void> {
  try {
    await request;
  } catch (error) {
    if (!isNotFound(error) && !isConflict(error)) throw error;
  }
}
