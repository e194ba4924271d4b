import { apiVersionOf, type DeepReadonly, type KubernetesObject, type ResourceType } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Logger, Request } from "@keelson/controller";
import { Informer, type StoreEffect } from "@keelson/controller/informer";

/** What a test watches: one or all objects of a kind in a namespace (`undefined` for cluster-scoped kinds). */
export interface WatchTarget {
  readonly type: ResourceType;
  readonly namespace: string | undefined;
  /** Absent: all objects. */
  readonly name?: string | undefined;
}

/** The watched state of a kind in a namespace. */
export interface WatchView {
  /** Whether the initial list has completed. */
  readonly isListed: boolean;
  /** Why the last list or watch failed; cleared by the next success. */
  readonly error: unknown;
  get(name: string): DeepReadonly<KubernetesObject> | undefined;
  /** Sorted by name. */
  list(): readonly DeepReadonly<KubernetesObject>[];
  /** Whether the watch has seen this resource version. */
  hasSeen(resourceVersion: string): boolean;
}

/** Options of {@link WatchSet}. */
export interface WatchSetOptions {
  readonly client: Client;
  readonly clock: Clock;
  readonly log: Logger;
  /** A number in [0, 1), for jitter. Default: `Math.random`. */
  readonly random?: () => number;
  /** Called when an object changed that this request follows. */
  readonly wake: (request: Request) => void;
  /** Maximum number of objects of a watch, which ends when there are more. Default: not limited. */
  readonly maxObjects?: number;
}

interface Follower {
  readonly request: Request;
  /** Absent: every object. */
  readonly names: ReadonlySet<string> | undefined;
}

/**
 * Watches on the kinds that running tests use. Tests share one watch per kind and namespace; it starts with the first
 * test that needs it and stops with the last one.
 */
export class WatchSet {
  readonly #options: WatchSetOptions;
  readonly #watched = new Map<string, WatchedKind>();
  readonly #watchesOf = new Map<string, ReadonlySet<string>>();

  constructor(options: WatchSetOptions) {
    this.#options = options;
  }

  /** Number of open watches. */
  get size(): number {
    return this.#watched.size;
  }

  /** Sets what a test follows. An empty list stops following. */
  follow(request: Request, targets: readonly WatchTarget[]): void {
    const id = `${request.namespace ?? ""}/${request.name}`;
    const namesByKind = new Map<string, { readonly want: WatchTarget; names: Set<string> | undefined }>();
    for (const want of targets) {
      const key = keyOf(want.type, want.namespace);
      const entry = namesByKind.get(key) ?? { want, names: new Set<string>() };
      if (want.name === undefined) entry.names = undefined;
      else entry.names?.add(want.name);
      namesByKind.set(key, entry);
    }
    for (const [key, { want, names }] of namesByKind) {
      let kind = this.#watched.get(key);
      if (kind === undefined) {
        kind = new WatchedKind(this.#options, want.type, want.namespace);
        this.#watched.set(key, kind);
      }
      kind.followers.set(id, { request, names });
    }
    for (const key of this.#watchesOf.get(id) ?? []) {
      if (namesByKind.has(key)) continue;
      const kind = this.#watched.get(key);
      kind?.followers.delete(id);
      if (kind === undefined || kind.followers.size > 0) continue;
      kind.stop();
      this.#watched.delete(key);
    }
    if (namesByKind.size === 0) this.#watchesOf.delete(id);
    else this.#watchesOf.set(id, new Set(namesByKind.keys()));
  }

  /** The state of a watched kind. */
  view(type: ResourceType, namespace: string | undefined): WatchView | undefined {
    return this.#watched.get(keyOf(type, namespace));
  }

  /** Stops all watches. */
  stop(): void {
    for (const kind of this.#watched.values()) kind.stop();
    this.#watched.clear();
    this.#watchesOf.clear();
  }
}

const keyOf = (type: ResourceType, namespace: string | undefined): string =>
  `${apiVersionOf(type)}/${type.plural}@${namespace ?? ""}`;

class WatchedKind implements WatchView {
  readonly followers = new Map<string, Follower>();
  readonly #objects = new Map<string, DeepReadonly<KubernetesObject>>();
  readonly #informer: Informer;
  readonly #abort = new AbortController();
  readonly #wake: (request: Request) => void;
  readonly #maxObjects: number;
  #isListed = false;
  #overflow: Error | undefined;

  constructor(
    { client, clock, log, wake, random = Math.random, maxObjects = Number.POSITIVE_INFINITY }: WatchSetOptions,
    type: ResourceType,
    namespace: string | undefined,
  ) {
    this.#wake = wake;
    this.#maxObjects = maxObjects;
    this.#informer = new Informer({
      client,
      type,
      namespace,
      clock,
      random,
      // A failure changes the message of waiting tests. The informer reports failures only to its log.
      log: {
        ...log,
        warn: (fields, message) => {
          log.warn(fields, message);
          this.#wakeAll();
        },
      },
      onEffect: (effect) => this.#applyEffect(effect),
    });
    void this.#informer.run(this.#abort.signal);
  }

  get isListed(): boolean {
    return this.#isListed;
  }

  get error(): unknown {
    return this.#overflow ?? this.#informer.lastError;
  }

  get(name: string): DeepReadonly<KubernetesObject> | undefined {
    return this.#objects.get(name);
  }

  list(): readonly DeepReadonly<KubernetesObject>[] {
    return [...this.#objects.entries()].sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)).map(([, object]) => object);
  }

  hasSeen(resourceVersion: string): boolean {
    return this.#informer.hasSeen(resourceVersion);
  }

  stop(): void {
    this.#abort.abort();
    this.followers.clear();
  }

  #applyEffect(effect: StoreEffect): void {
    if (this.#overflow !== undefined) return;
    const added = effect.kind === "replace" ? effect.objects.length : effect.kind === "put" ? this.#objects.size + 1 : 0;
    if (added > this.#maxObjects) {
      this.#endWatch(new WatchLimitError(`must have at most ${this.#maxObjects} objects to be watched`));
      return;
    }
    switch (effect.kind) {
      case "replace":
        this.#objects.clear();
        for (const object of effect.objects) this.#objects.set(object.metadata.name ?? "", object);
        this.#isListed = true;
        this.#wakeLater(undefined);
        return;
      case "put":
        this.#objects.set(effect.object.metadata.name ?? "", effect.object);
        break;
      case "remove":
        this.#objects.delete(effect.object.metadata.name ?? "");
        break;
    }
    this.#wakeLater(effect.object.metadata.name ?? "");
  }

  #endWatch(overflow: Error): void {
    this.#overflow = overflow;
    this.#abort.abort();
    this.#objects.clear();
    this.#isListed = false;
    this.#wakeAll();
  }

  /** Defers until the informer has recorded the version of the object, so that `hasSeen` is true for the woken tests. */
  #wakeLater(name: string | undefined): void {
    queueMicrotask(() => {
      for (const { request, names } of this.followers.values()) {
        if (name === undefined || names === undefined || names.has(name)) this.#wake(request);
      }
    });
  }

  #wakeAll(): void {
    this.#wakeLater(undefined);
  }
}

/** A kind has too many objects to be watched. */
class WatchLimitError extends Error {
  override readonly name = "WatchLimitError";
  readonly code = "WatchLimit";
}
