import type { DeepReadonly, KubernetesObject, ResourceType } from "@keelson/api-machinery";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { CacheOptions, Logger } from "@keelson/controller";
import { Informer, type StoreEffect } from "@keelson/controller/informer";
import { type GraphNode, nodeOf, ObjectGraph } from "./object-graph.ts";

/** The deletable kinds. They change with CustomResourceDefinitions and APIServices. */
export interface KindSource {
  list(): readonly ResourceType[];
  /** Group versions (`group/version`) whose kinds are unknown because their API server is not available. Default: none. */
  staleVersions?(): readonly string[];
  /** Calls `listener` when the kinds or the stale versions change. Returns a function that unsubscribes. */
  onChange(listener: () => void): () => void;
}

/** Called after the graph has changed. `node` is the current or last state of the object, `previous` the previous one. */
export type NodeListener = (change: {
  readonly type: "put" | "remove";
  readonly node: GraphNode;
  readonly previous?: GraphNode | undefined;
}) => void;

/** Options of {@link ObjectMonitor}. */
export interface ObjectMonitorOptions {
  readonly client: Client;
  readonly kinds: KindSource;
  /** See `CacheOptions.initialList`. */
  readonly initialList?: CacheOptions["initialList"];
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  readonly onNode: NodeListener;
  /** Called when a kind has been listed for the first time, cannot be listed, or is no longer served, and when versions become stale. */
  readonly onKind: () => void;
}

interface MonitoredKind {
  readonly type: ResourceType;
  readonly stop: AbortController;
  readonly running: Promise<void>;
  /** Uids of its objects, to detect removals on a relist. */
  readonly uids: Set<string>;
  readonly overdue: Timer;
  isListed: boolean;
  isOverdue: boolean;
}

/** Maximum number of deleted objects that are remembered. */
const maxDeleted = 10_000;

/** How long to wait for a kind that cannot be listed, as in kube-controller-manager. */
const maxListMs = 30_000;

/** Events own nothing and expire by themselves, but there can be far more of them than of all other objects. */
const isIgnored = ({ group, plural }: ResourceType): boolean =>
  plural === "events" && (group === "" || group === "events.k8s.io");

/**
 * Watches every object of every deletable kind but Events, as kube-controller-manager does, and keeps only what an {@link ObjectGraph}
 * needs.
 */
export class ObjectMonitor {
  readonly graph = new ObjectGraph();
  readonly #options: ObjectMonitorOptions;
  readonly #kinds = new Map<string, MonitoredKind>();
  /** Uids of the last deleted objects, in order. */
  readonly #deleted = new Set<string>();
  readonly #unsubscribe: () => void;

  constructor(options: ObjectMonitorOptions) {
    this.#options = options;
    this.#unsubscribe = options.kinds.onChange(() => {
      this.#follow();
      options.onKind();
    });
    this.#follow();
  }

  /**
   * Whether every kind that is watched has been listed, except for those that could not be listed for 30 s, such as kinds of a broken extension API
   * server. Until then a missing node proves nothing.
   */
  get isSettled(): boolean {
    for (const kind of this.#kinds.values()) if (!kind.isListed && !kind.isOverdue) return false;
    return true;
  }

  /** The served kinds that have not been listed. */
  get unlistedKinds(): readonly ResourceType[] {
    return [...this.#kinds.values()].filter(({ isListed }) => !isListed).map(({ type }) => type);
  }

  /** Group versions (`group/version`) whose kinds are unknown because their API server is not available. */
  get staleVersions(): readonly string[] {
    return this.#options.kinds.staleVersions?.() ?? [];
  }

  /** Whether an object was recently deleted. Unlike its absence, this holds even if its kind is no longer served. */
  wasDeleted(uid: string): boolean {
    return this.#deleted.has(uid);
  }

  /** The served type of this group and kind, in any version. */
  typeOfOwner(group: string, kind: string): ResourceType | undefined {
    for (const monitored of this.#kinds.values())
      if (monitored.type.group === group && monitored.type.kind === kind) return monitored.type;
    return undefined;
  }

  async stop(): Promise<void> {
    this.#unsubscribe();
    const kinds = [...this.#kinds.values()];
    this.#kinds.clear();
    for (const kind of kinds) stopKind(kind);
    await Promise.all(kinds.map((kind) => kind.running));
  }

  #follow(): void {
    const kinds = this.#options.kinds.list().filter((type) => !isIgnored(type));
    const served = new Map(kinds.map((type) => [`${type.group}/${type.version}/${type.plural}`, type]));
    for (const [id, kind] of this.#kinds) {
      if (served.has(id)) continue;
      this.#kinds.delete(id);
      stopKind(kind);
      for (const uid of [...kind.uids]) this.#remove(kind, uid);
    }
    for (const [id, type] of served) {
      if (!this.#kinds.has(id)) this.#kinds.set(id, this.#start(type));
    }
  }

  #start(type: ResourceType): MonitoredKind {
    const { client, clock, random, log, initialList } = this.#options;
    const stop = new AbortController();
    const onEffect = (effect: StoreEffect): void => this.#applyEffect(kind, effect);
    const informer = new Informer({ client, type, clock, random, log, onEffect, initialList });
    const giveUp = (): void => {
      if (kind.isListed) return;
      kind.isOverdue = true;
      log.warn(
        { group: type.group, version: type.version, resource: type.plural },
        "kind cannot be listed; continuing without it",
      );
      this.#options.onKind();
    };
    const overdue = clock.setTimer(maxListMs, giveUp, { background: true });
    const kind: MonitoredKind = {
      ...{ type, stop, overdue, uids: new Set(), isListed: false, isOverdue: false },
      running: informer.run(stop.signal),
    };
    return kind;
  }

  #applyEffect(kind: MonitoredKind, effect: StoreEffect): void {
    if (effect.kind === "put") this.#put(kind, effect.object);
    else if (effect.kind === "remove") {
      const { uid = "" } = effect.object.metadata;
      this.#remember(uid);
      this.#remove(kind, uid);
    } else {
      const now = new Set(effect.objects.map((object) => object.metadata.uid ?? ""));
      for (const uid of [...kind.uids]) if (!now.has(uid)) this.#remove(kind, uid);
      for (const object of effect.objects) this.#put(kind, object);
      if (!kind.isListed) {
        kind.isListed = true;
        kind.overdue.cancel();
        this.#options.onKind();
      }
    }
  }

  #put(kind: MonitoredKind, object: DeepReadonly<KubernetesObject>): void {
    const node = nodeOf(kind.type, object);
    kind.uids.add(node.uid);
    const previous = this.graph.put(node);
    this.#options.onNode({ type: "put", node, previous });
  }

  #remember(uid: string): void {
    this.#deleted.add(uid);
    const oldest = this.#deleted.values().next();
    if (this.#deleted.size > maxDeleted && !oldest.done) this.#deleted.delete(oldest.value);
  }

  #remove(kind: MonitoredKind, uid: string): void {
    kind.uids.delete(uid);
    const node = this.graph.remove(uid);
    if (node) this.#options.onNode({ type: "remove", node });
  }
}

function stopKind({ stop, overdue }: MonitoredKind): void {
  overdue.cancel();
  stop.abort();
}
