import { apiVersionOf, type DeepReadonly, type KubernetesObject, type ResourceType } from "@keelson/api-machinery";
import { createDeferred } from "@keelson/api-machinery/deferred";
import { type Clock, sleep } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Logger, Request } from "@keelson/controller";
import { Informer, type StoreEffect } from "@keelson/controller/informer";
import { Followers } from "./followers.ts";
import { VersionRecorder } from "./version-recorder.ts";

/** What a test watches: one or all objects of a kind in a namespace (`undefined` for cluster-scoped kinds). */
export interface WatchTarget {
  readonly type: ResourceType;
  readonly namespace: string | undefined;
  /** Absent: all objects. */
  readonly name?: string | undefined;
  /** Whether a change of an object, given before or after it, concerns the test. Default: always. Only without `name`. */
  readonly concerns?: ((object: WatchedObject) => boolean) | undefined;
}

/** An object of a watch, with its `apiVersion` and `kind`. */
export type WatchedObject = DeepReadonly<KubernetesObject> & { readonly apiVersion: string; readonly kind: string };

/** The watched state of a kind in a namespace. */
export interface WatchView {
  /** Whether the initial list has completed. */
  readonly isListed: boolean;
  /** Why the last list or watch failed; cleared by the next success. Until then, the objects may have changed. */
  readonly error: unknown;
  /** Milliseconds since when every change was seen: since the last list, because watches resume without a gap. */
  readonly unbrokenMs: number;
  get(name: string): WatchedObject | undefined;
  /** Sorted by name. */
  list(): readonly WatchedObject[];
  /** Whether the watch has seen this resource version. */
  hasSeen(resourceVersion: string): boolean;
  /** The versions of an object since the last call with these arguments, which starts to record them. See {@link VersionRecorder}. */
  takeVersions(reader: string, name: string): readonly (WatchedObject | undefined)[];
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
    const byKind = new Map<string, WatchTarget[]>();
    for (const want of targets) {
      const key = keyOf(want.type, want.namespace);
      const wants = byKind.get(key);
      if (wants === undefined) byKind.set(key, [want]);
      else wants.push(want);
    }
    for (const [key, wants] of byKind) {
      let kind = this.#watched.get(key);
      const [first] = wants;
      if (kind === undefined && first !== undefined) {
        kind = new WatchedKind(this.#options, first.type, first.namespace);
        this.#watched.set(key, kind);
      }
      kind?.followers.set(id, request, wants);
    }
    for (const key of this.#watchesOf.get(id) ?? []) {
      if (byKind.has(key)) continue;
      const kind = this.#watched.get(key);
      kind?.followers.delete(id);
      kind?.versions.forget(id);
      if (kind === undefined || kind.followers.size > 0) continue;
      kind.stop();
      this.#watched.delete(key);
    }
    if (byKind.size === 0) this.#watchesOf.delete(id);
    else this.#watchesOf.set(id, new Set(byKind.keys()));
  }

  /** The state of a watched kind. */
  view(type: ResourceType, namespace: string | undefined): WatchView | undefined {
    return this.#watched.get(keyOf(type, namespace));
  }

  /** Waits until the watch of a kind has seen a resource version, for at most `withinMs`. Resolves to whether it has. */
  async whenSeen(
    { type, namespace }: Pick<WatchTarget, "type" | "namespace">,
    resourceVersion: string,
    { withinMs, signal }: { readonly withinMs: number; readonly signal: AbortSignal },
  ): Promise<boolean> {
    const kind = this.#watched.get(keyOf(type, namespace));
    if (kind === undefined) return false;
    if (kind.hasSeen(resourceVersion)) return true;
    const late = new AbortController();
    const seen = createDeferred<boolean>();
    const forget = kind.whenSeen(resourceVersion, () => seen.resolve(true));
    const timeout = sleep(this.#options.clock, withinMs, AbortSignal.any([late.signal, signal])).catch(() => {});
    try {
      return await Promise.race([seen.promise, timeout.then(() => false)]);
    } finally {
      late.abort();
      forget();
    }
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
  readonly followers = new Followers();
  readonly versions = new VersionRecorder<WatchedObject>();
  readonly #objects = new Map<string, WatchedObject>();
  readonly #identity: { readonly apiVersion: string; readonly kind: string };
  #sorted: readonly WatchedObject[] | undefined;
  readonly #informer: Informer;
  readonly #abort = new AbortController();
  readonly #wake: (request: Request) => void;
  readonly #maxObjects: number;
  readonly #clock: Clock;
  #listedAt: number | undefined;
  #overflow: Error | undefined;

  constructor(
    { client, clock, log, wake, random = Math.random, maxObjects = Number.POSITIVE_INFINITY }: WatchSetOptions,
    type: ResourceType,
    namespace: string | undefined,
  ) {
    this.#wake = wake;
    this.#maxObjects = maxObjects;
    this.#clock = clock;
    this.#identity = { apiVersion: apiVersionOf(type), kind: type.kind };
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
      onRecovered: () => this.#wakeAll(),
    });
    void this.#informer.run(this.#abort.signal);
  }

  get isListed(): boolean {
    return this.#listedAt !== undefined;
  }

  get unbrokenMs(): number {
    return this.#listedAt === undefined ? 0 : this.#clock.monotonic() - this.#listedAt;
  }

  get error(): unknown {
    return this.#overflow ?? this.#informer.lastError;
  }

  get(name: string): WatchedObject | undefined {
    return this.#objects.get(name);
  }

  list(): readonly WatchedObject[] {
    this.#sorted ??= [...this.#objects.entries()].sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)).map(([, object]) => object);
    return this.#sorted;
  }

  hasSeen(resourceVersion: string): boolean {
    return this.#informer.hasSeen(resourceVersion);
  }

  takeVersions(reader: string, name: string): readonly (WatchedObject | undefined)[] {
    return this.versions.take(reader, name);
  }

  whenSeen(resourceVersion: string, resolve: () => void): () => void {
    return this.#informer.whenSeen(resourceVersion, resolve);
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
    this.#sorted = undefined;
    if (effect.kind === "replace") {
      this.#objects.clear();
      for (const object of effect.objects) this.#objects.set(object.metadata.name ?? "", this.#identified(object));
      this.#listedAt = this.#clock.monotonic();
      this.#wakeAll();
      return;
    }
    const { name = "" } = effect.object.metadata;
    const before = this.#objects.get(name);
    const after = effect.kind === "put" ? this.#identified(effect.object) : undefined;
    if (after === undefined) this.#objects.delete(name);
    else this.#objects.set(name, after);
    this.versions.add(name, after);
    this.#wakeLater(() => this.followers.concernedBy(name, before, after));
  }

  /** Items of a list have neither apiVersion nor kind, but assertions may name them. */
  #identified(object: DeepReadonly<KubernetesObject>): WatchedObject {
    return { ...object, ...this.#identity };
  }

  #endWatch(overflow: Error): void {
    this.#overflow = overflow;
    this.#abort.abort();
    this.#objects.clear();
    this.#sorted = undefined;
    this.#listedAt = undefined;
    this.#wakeAll();
  }

  /** Defers until the informer has recorded the version of the object, so that `hasSeen` is true for the woken tests. */
  #wakeLater(requests: () => Iterable<Request>): void {
    queueMicrotask(() => {
      for (const request of requests()) this.#wake(request);
    });
  }

  #wakeAll(): void {
    this.#wakeLater(() => this.followers.all());
  }
}

/** A kind has too many objects to be watched. */
class WatchLimitError extends Error {
  override readonly name = "WatchLimitError";
  readonly code = "WatchLimit";
}
