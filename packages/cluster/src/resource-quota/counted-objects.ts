import { type DeepReadonly, jsonEquals, type KubernetesObject, type ResourceType } from "@keelson/api-machinery";
import { valueAt } from "@keelson/api-machinery/object-fields";
import type { QuotaKind } from "@keelson/api-machinery/quota";
import type { Clock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import { type Logger, metadataOf } from "@keelson/controller";
import { Informer, type StoreEffect } from "@keelson/controller/informer";
import type { KindSource } from "../garbage-collector/object-monitor.ts";

/** Options of {@link CountedObjects}. */
export interface CountedObjectsOptions {
  readonly client: Client;
  readonly kinds: KindSource;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  /** Called when the usage in a namespace may have changed. */
  readonly onChange: (namespace: string) => void;
  /** Called when a kind has been listed for the first time or is no longer served. */
  readonly onKind: () => void;
}

type CachedObject = DeepReadonly<KubernetesObject>;

interface CountedKind {
  readonly type: ResourceType;
  readonly stop: AbortController;
  /** By namespace and name. */
  readonly objects: Map<string, Map<string, CachedObject>>;
  isListed: boolean;
}

/** Kinds whose content is measured. All others are only counted. */
const measuredKinds: ReadonlySet<string> = new Set(["/persistentvolumeclaims", "/pods", "/services"]);

const keyOf = ({ group, plural }: QuotaKind): string => `${group}/${plural}`;

/**
 * The objects that ResourceQuotas count. Each kind has an informer that runs while a quota names the kind; kinds that are only counted are
 * reduced to their metadata.
 */
export class CountedObjects {
  readonly #options: CountedObjectsOptions;
  readonly #kinds = new Map<string, CountedKind>();
  readonly #running = new Set<Promise<void>>();
  readonly #unsubscribe: () => void;
  #needed: ReadonlySet<string> = new Set();

  constructor(options: CountedObjectsOptions) {
    this.#options = options;
    this.#unsubscribe = options.kinds.onChange(() => this.#update());
  }

  /** Starts and stops informers, so that exactly these kinds are followed. */
  follow(kinds: Iterable<QuotaKind>): void {
    this.#needed = new Set([...kinds].map(keyOf));
    this.#update();
  }

  /** Whether all objects of a followed kind are known. A kind that is not served has none. */
  isListed(kind: QuotaKind): boolean {
    return this.#kinds.get(keyOf(kind))?.isListed ?? true;
  }

  /** The objects of a kind in a namespace. */
  in(namespace: string, kind: QuotaKind): Iterable<CachedObject> {
    return this.#kinds.get(keyOf(kind))?.objects.get(namespace)?.values() ?? [];
  }

  async stop(): Promise<void> {
    this.#unsubscribe();
    for (const { stop } of this.#kinds.values()) stop.abort();
    this.#kinds.clear();
    await Promise.all(this.#running);
  }

  #update(): void {
    const served = new Map(
      this.#options.kinds
        .list()
        .filter((type) => this.#needed.has(keyOf(type)))
        .map((type) => [keyOf(type), type]),
    );
    for (const [key, { type, stop }] of this.#kinds) {
      if (served.get(key)?.version === type.version) continue;
      this.#kinds.delete(key);
      stop.abort();
      if (this.#needed.has(key)) this.#options.onKind();
    }
    for (const [key, type] of served) if (!this.#kinds.has(key)) this.#kinds.set(key, this.#start(key, type));
  }

  #start(key: string, type: ResourceType): CountedKind {
    const { client, clock, random, log } = this.#options;
    const kind: CountedKind = { type, stop: new AbortController(), objects: new Map(), isListed: false };
    const informer = new Informer({
      client,
      type: measuredKinds.has(key) ? type : metadataOf(type),
      clock,
      random,
      log,
      onEffect: (effect) => this.#apply(kind, effect),
    });
    const running = informer.run(kind.stop.signal).finally(() => this.#running.delete(running));
    this.#running.add(running);
    return kind;
  }

  #apply(kind: CountedKind, effect: StoreEffect): void {
    if (kind.stop.signal.aborted) return;
    if (effect.kind === "replace") return this.#replace(kind, effect.objects);
    const { namespace = "", name = "" } = effect.object.metadata;
    const previous = kind.objects.get(namespace)?.get(name);
    if (effect.kind === "put") put(kind, effect.object);
    else remove(kind, namespace, name);
    if (effect.kind === "remove" || previous === undefined || !hasSameUsage(previous, effect.object)) {
      this.#options.onChange(namespace);
    }
  }

  #replace(kind: CountedKind, objects: readonly CachedObject[]): void {
    const namespaces = new Set(kind.objects.keys());
    kind.objects.clear();
    for (const object of objects) put(kind, object);
    for (const namespace of kind.objects.keys()) namespaces.add(namespace);
    if (kind.isListed) for (const namespace of namespaces) this.#options.onChange(namespace);
    else {
      kind.isListed = true;
      this.#options.onKind();
    }
  }
}

function put({ objects }: CountedKind, object: CachedObject): void {
  const { namespace = "", name = "" } = object.metadata;
  let byName = objects.get(namespace);
  if (byName === undefined) objects.set(namespace, (byName = new Map()));
  byName.set(name, object);
}

function remove({ objects }: CountedKind, namespace: string, name: string): void {
  const byName = objects.get(namespace);
  byName?.delete(name);
  if (byName?.size === 0) objects.delete(namespace);
}

/** Usage depends on the spec, and on the phase because finished Pods release theirs. */
function hasSameUsage(a: CachedObject, b: CachedObject): boolean {
  return valueAt(a, "status", "phase") === valueAt(b, "status", "phase") && jsonEquals(valueAt(a, "spec"), valueAt(b, "spec"));
}
