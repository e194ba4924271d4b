import { type DeepReadonly, isConflict, isNotFound } from "@keelson/api-machinery";
import { Event, Namespace, type NamespaceObject } from "@keelson/api-machinery/kinds";
import { type Clock, formatTime } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Logger } from "@keelson/controller";
import { Informer, type StoreEffect } from "@keelson/controller/informer";
import { ClusterError } from "../cluster-error.ts";
import { type GarbageCollector, keyOf } from "../garbage-collector/garbage-collector.ts";
import { KeyedWorkers } from "../keyed-workers.ts";
import { type ContentFailures, type RemainingObject, terminatingConditions } from "./namespace-conditions.ts";
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
  return new NamespaceController(options);
}

class NamespaceController {
  readonly #client: Client;
  readonly #collector: GarbageCollector;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #workers: KeyedWorkers;
  readonly #known = new Map<string, DeepReadonly<NamespaceObject>>();
  readonly #stopping = new AbortController();
  readonly #unsubscribe: readonly (() => void)[];
  readonly #running: Promise<void>;
  #isListed = false;

  constructor({ client, collector, clock, random, log }: NamespaceControllerOptions) {
    this.#client = client;
    this.#collector = collector;
    this.#clock = clock;
    this.#log = log;
    const work = (name: string, signal: AbortSignal): Promise<void> => this.#reconcile(name, signal);
    this.#workers = new KeyedWorkers({ clock, random, log, concurrency: 2, work });
    this.#unsubscribe = [
      collector.onNode(({ node: { namespace } }) => {
        if (namespace !== "" && this.#isTerminating(namespace)) this.#workers.add(namespace);
      }),
      collector.onSettled(() => {
        for (const name of this.#known.keys()) if (this.#isTerminating(name)) this.#workers.add(name);
      }),
    ];
    const onEffect = (effect: StoreEffect): void => this.#apply(effect);
    this.#running = new Informer({ client, type: Namespace, clock, random, log, onEffect }).run(this.#stopping.signal);
  }

  async stop(): Promise<void> {
    for (const unsubscribe of this.#unsubscribe) unsubscribe();
    this.#stopping.abort();
    await this.#workers.stop();
    await this.#running;
  }

  #apply(effect: StoreEffect): void {
    if (effect.kind === "replace") {
      this.#known.clear();
      this.#isListed = true;
    }
    for (const object of effect.kind === "replace" ? effect.objects : [effect.object]) {
      const name = object.metadata.name ?? "";
      if (effect.kind === "remove") this.#known.delete(name);
      else this.#known.set(name, object);
      this.#workers.add(name);
    }
  }

  async #reconcile(name: string, signal: AbortSignal): Promise<void> {
    const { monitor } = this.#collector;
    if (!monitor.isSettled) return;
    const namespace = this.#known.get(name) ?? (await this.#absent(name, signal));
    if (namespace === undefined) return;
    const failures: ContentFailures = {
      staleVersions: monitor.staleVersions,
      unlistedKinds: monitor.unlistedKinds.filter(({ scope }) => scope === "Namespaced"),
    };
    const isComplete = failures.staleVersions.length === 0 && failures.unlistedKinds.length === 0;
    const action = decideNamespace(namespace, monitor.graph.inNamespace(name), isComplete);
    if (action.kind === "empty") {
      for (const node of action.objects) {
        const options = { propagationPolicy: "Background", preconditions: { uid: node.uid }, signal } as const;
        await ignoreNotFound(this.#client.delete(node.type, keyOf(node), options));
      }
    } else if (action.kind === "wait") {
      await this.#report(namespace, action.remaining, failures, signal);
    } else if (action.kind === "finalize") {
      await this.#deleteEvents(name, signal);
      this.#log.info({ namespace: name }, "namespace is empty; removing its finalizer");
      const empty = { ...namespace, spec: { ...namespace.spec, finalizers: action.finalizers } };
      await ignoreNotFound(this.#client.update(Namespace, empty, { subresource: "finalize", signal }));
    }
  }

  /** Deletes the Events, which the collector does not follow, last: the deletion of other objects causes Events. */
  async #deleteEvents(namespace: string, signal: AbortSignal): Promise<void> {
    await this.#client.deleteCollection(Event, { namespace }, { signal });
    const { items } = await this.#client.list(Event, { namespace, limit: 1, signal });
    if (items.length > 0) throw new ClusterError("NotEmpty", `namespace ${namespace} still has Events`);
  }

  async #report(
    namespace: DeepReadonly<NamespaceObject>,
    remaining: readonly RemainingObject[],
    failures: ContentFailures,
    signal: AbortSignal,
  ): Promise<void> {
    // A placeholder has no status.
    if (namespace.metadata.uid === undefined) return;
    const now = formatTime(this.#clock.now());
    const conditions = terminatingConditions(namespace.status?.conditions ?? [], remaining, now, failures);
    if (conditions === undefined) return;
    const next = { ...namespace, status: { ...namespace.status, conditions } };
    await ignoreNotFound(this.#client.update(Namespace, next, { subresource: "status", signal }));
  }

  /**
   * A placeholder for a namespace that was deleted but still has objects; undefined if it exists or has none. An object created while its
   * namespace was being deleted can outlive it, and is deleted as well.
   */
  async #absent(name: string, signal: AbortSignal): Promise<NamespaceObject | undefined> {
    if (!this.#isListed || this.#collector.monitor.graph.inNamespace(name).length === 0) return undefined;
    return this.#client.get(Namespace, { name }, { signal }).then(
      () => undefined,
      (error: unknown) => {
        if (isNotFound(error)) return absentNamespace(name);
        throw error;
      },
    );
  }

  #isTerminating(name: string): boolean {
    const namespace = this.#known.get(name);
    return namespace === undefined ? this.#isListed : namespace.metadata.deletionTimestamp !== undefined;
  }
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
