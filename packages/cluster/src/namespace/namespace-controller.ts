import { type Clock, type DeepReadonly, isConflict, isNotFound, type ResourceType } from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import { Informer, type Logger } from "@keelson/controller";
import { type GarbageCollector, keyOf } from "../garbage-collector/garbage-collector.ts";
import { KeyedWorkers } from "../keyed-workers.ts";
import { decideNamespace, type Namespace } from "./namespace-decision.ts";

const namespaces: ResourceType<Namespace> = { group: "", version: "v1", kind: "Namespace", plural: "namespaces", scope: "Cluster" };

/** Options of {@link startNamespaceController}. */
export interface NamespaceControllerOptions {
  readonly client: Client;
  /** Knows what each namespace holds. */
  readonly collector: GarbageCollector;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
}

/** Empties namespaces that are being deleted and lets them go, as kube-controller-manager's namespace controller does. */
export function startNamespaceController(options: NamespaceControllerOptions): { stop(): Promise<void> } {
  const { client, collector, clock, random, log } = options;
  const stop = new AbortController();
  const known = new Map<string, DeepReadonly<Namespace>>();

  const reconcile = async (name: string, signal: AbortSignal): Promise<void> => {
    const namespace = known.get(name);
    if (namespace === undefined || !collector.monitor.isSynced) return;
    const action = decideNamespace(namespace, collector.monitor.graph.inNamespace(name));
    if (action.kind === "empty") {
      for (const node of action.objects) {
        await client
          .delete(node.type, keyOf(node), { propagationPolicy: "Background", preconditions: { uid: node.uid }, signal })
          .catch((error: unknown) => {
            if (!isNotFound(error) && !isConflict(error)) throw error;
          });
      }
    } else if (action.kind === "finalize") {
      // An object may have been made between the last look and now; the server refuses new ones in a namespace that is going, and
      // the watch has told of all before.
      log.info({ namespace: name }, "the namespace is empty and goes");
      await client
        .patch(namespaces, { name }, { type: "merge", body: { spec: { finalizers: action.finalizers } } }, { subresource: "finalize", signal })
        .catch((error: unknown) => {
          if (!isNotFound(error)) throw error;
        });
    }
  };

  const workers = new KeyedWorkers({ clock, random, log, concurrency: 2, work: reconcile });
  const informer = new Informer({
    client,
    type: namespaces,
    clock,
    random,
    log,
    onEffect(effect) {
      if (effect.kind === "replace") known.clear();
      for (const object of effect.kind === "replace" ? effect.objects : [effect.object]) {
        const name = object.metadata.name ?? "";
        if (effect.kind === "remove") known.delete(name);
        else known.set(name, object as DeepReadonly<Namespace>);
        workers.add(name);
      }
    },
  });
  const isGoing = (name: string): boolean => known.get(name)?.metadata.deletionTimestamp !== undefined;
  const unsubscribe = collector.onNode(({ node }) => {
    if (node.namespace !== "" && isGoing(node.namespace)) workers.add(node.namespace);
  });
  const unsubscribeKinds = collector.onSynced(() => {
    for (const name of known.keys()) if (isGoing(name)) workers.add(name);
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
