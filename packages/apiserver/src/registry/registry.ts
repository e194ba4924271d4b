import { draft, type KubernetesObject } from "@keelson/api-machinery";
import { type Clock, formatTime } from "@keelson/api-machinery/time";
import type { Store, StoreEvent, StoredObject } from "../storage/store.ts";
import { type BuiltinKindsOptions, builtinKinds, groupOrder } from "./builtin-kinds.ts";
import { deleteAll } from "./crd/crd-cleanup.ts";
import { decideStatus } from "./crd/crd-conditions.ts";
import { crdResources } from "./crd/crd-resources.ts";
import { asCrd, cleanupFinalizer, crdResource } from "./crd/crd-spec.ts";
import { keepsFields } from "./crd/kept-fields.ts";
import { PruningMark } from "./crd/pruning-mark.ts";
import { type ConversionServices, webhookConverter } from "./crd/webhook-converter.ts";
import { WebhookError } from "../webhooks/webhook-error.ts";
import type { ResourceTable, ServedResource } from "./served-resource.ts";
import { compareVersionPriority } from "./version-order.ts";

/** What {@link createRegistry} takes. */
export interface RegistryOptions extends BuiltinKindsOptions {
  readonly store: Store;
  readonly clock: Clock;
  /** Additional built-in kinds, which replace those with the same group, version and plural. */
  readonly kinds?: readonly ServedResource[];
  /** Calls the conversion webhooks of CRDs. Default: their objects cannot be converted. */
  readonly conversion?: ConversionServices;
  /** Receives background errors of CRD processing. Default: ignored. */
  readonly onError?: (error: unknown) => void;
}

/** The served kinds: built-in ones and those of the CustomResourceDefinitions in the store. */
export interface Registry extends ResourceTable {
  /** Stops watching the store and waits for pending writes. */
  close(): Promise<void>;
}

const crdPrefix = `${crdResource.group}/${crdResource.plural}/`;

/**
 * Serves the built-in kinds and watches CustomResourceDefinitions. Those in the store are served when this returns, others once their
 * names are accepted, which this records in their status. A CRD that is being
 * deleted keeps its finalizer until its objects are deleted; then the CRD and its kind are removed.
 */
export function createRegistry(options: RegistryOptions): Registry {
  return new CrdRegistry(options);
}

class CrdRegistry implements Registry {
  readonly #store: Store;
  readonly #now: () => number;
  readonly #conversion: ConversionServices;
  readonly #onError: (error: unknown) => void;
  readonly #stopped = new AbortController();
  readonly #builtin: readonly ServedResource[];
  readonly #crds = new Map<string, FollowedCrd>();
  readonly #listeners = new Set<() => void>();
  readonly #working = new Set<Promise<void>>();
  /** Terminating CRDs whose objects are being deleted. */
  readonly #leaving = new Set<string>();
  readonly #watch: { close(): void };
  #names: Promise<void> = Promise.resolve();
  #table: Table;

  constructor(options: RegistryOptions) {
    const { store, clock, conversion = noConversion, onError = () => undefined } = options;
    this.#store = store;
    this.#conversion = conversion;
    this.#now = () => clock.now();
    this.#onError = onError;
    this.#builtin = replaceByIdentity(builtinKinds(options), options.kinds ?? []);
    this.#table = createTable(this.#builtin);
    const { items, revision } = store.list(crdPrefix);
    for (const stored of items) this.#follow(stored.key, stored);
    if (items.length > 0) this.#rebuild();
    for (const { key } of items) this.#enqueue(key);
    this.#watch = store.watch(crdPrefix, revision, (events) => this.#onEvents(events));
  }

  get(group: string, version: string, plural: string): ServedResource | undefined {
    return this.#table.byPlural.get(`${group}/${version}/${plural}`);
  }

  byKind(group: string, version: string, kind: string): ServedResource | undefined {
    return this.#table.byKind.get(`${group}/${version}/${kind}`);
  }

  list(): readonly ServedResource[] {
    return this.#table.list;
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  async close(): Promise<void> {
    this.#watch.close();
    this.#stopped.abort(new Error("the registry is closed"));
    this.#listeners.clear();
    await Promise.all(this.#working);
  }

  #onEvents(events: readonly StoreEvent[]): void {
    let isChanged = false;
    for (const event of events) {
      const { key } = event.object;
      const group = asCrd(event.object.object).spec.group;
      isChanged = this.#follow(key, event.type === "put" ? event.object : undefined) || isChanged;
      if (event.type === "put") this.#enqueue(key);
      else this.#enqueueGroup(key, group);
    }
    if (isChanged) this.#rebuild();
  }

  #rebuild(): void {
    this.#table = createTable([...this.#builtin, ...[...this.#crds.values()].flatMap(({ resources }) => resources)]);
    for (const listener of [...this.#listeners]) listener();
  }

  /** Applies the stored state of one CRD. Returns whether the served kinds have changed. */
  #follow(key: string, stored: StoredObject | undefined): boolean {
    const known = this.#crds.get(key);
    if (stored === undefined) {
      this.#crds.delete(key);
      return known !== undefined && known.resources.length > 0;
    }
    const followed = followCrd(stored, known, this.#conversion);
    this.#crds.set(key, followed);
    return followed.resources !== (known?.resources ?? nothing);
  }

  /** Decides the names of one CRD. Names go to the first CRD, so this runs for one at a time. */
  async #decideNames(key: string): Promise<void> {
    for (;;) {
      const stored = this.#crds.get(key)?.stored;
      if (stored === undefined || isTerminating(stored) || this.#stopped.signal.aborted) return;
      const others = [...this.#crds.values()].map((followed) => asCrd(followed.stored.object));
      const status = decideStatus(asCrd(stored.object), others, formatTime(this.#now()));
      if (status === undefined) return;
      await this.#store.write(key, stored.revision, { ...draft(stored.object), status: draft(status) } as KubernetesObject);
      // Written or not, the watch has delivered a newer state by now, unless the CRD was deleted.
      if (this.#crds.get(key)?.stored === stored) return;
    }
  }

  /** Deletes the objects of a terminating CRD, then the CRD. */
  async #cleanUp(key: string): Promise<void> {
    for (;;) {
      const stored = this.#crds.get(key)?.stored;
      if (stored === undefined || !isTerminating(stored)) return;
      const crd = asCrd(stored.object);
      const finalizers = crd.metadata.finalizers?.filter((finalizer) => finalizer !== cleanupFinalizer) ?? [];
      if (finalizers.length === (crd.metadata.finalizers?.length ?? 0)) return;
      const { signal } = this.#stopped;
      await deleteAll(this.#store, `${crd.spec.group}/${crd.spec.names.plural}/`, { now: this.#now, signal });
      const next = finalizers.length === 0 ? undefined : draft(stored.object);
      if (next !== undefined) next.metadata.finalizers = finalizers;
      await this.#store.write(key, stored.revision, next);
      if (this.#crds.get(key)?.stored === stored) return;
    }
  }

  /** Keeps track of background work, so that `close` waits for it. */
  #own(work: Promise<void>): void {
    const owned = work
      .catch((error: unknown) => {
        if (!this.#stopped.signal.aborted) this.#onError(error);
      })
      .finally(() => this.#working.delete(owned));
    this.#working.add(owned);
  }

  #enqueue(key: string): void {
    const stored = this.#crds.get(key)?.stored;
    if (stored === undefined || !isTerminating(stored)) {
      const turn = this.#names.then(() => this.#decideNames(key));
      this.#names = turn.catch(() => undefined);
      this.#own(turn);
    } else if (!this.#leaving.has(key)) {
      this.#leaving.add(key);
      this.#own(this.#cleanUp(key).finally(() => this.#leaving.delete(key)));
    }
  }

  /** Reconsiders the other CRDs of a group after names were allocated or released. */
  #enqueueGroup(key: string, group: string): void {
    for (const [other, { stored }] of this.#crds) {
      if (other !== key && asCrd(stored.object).spec.group === group) this.#enqueue(other);
    }
  }
}

function isTerminating({ object }: StoredObject): boolean {
  return object.metadata.deletionTimestamp !== undefined;
}

/** The resources of a CRD that is not established, always the same list. */
const nothing: readonly ServedResource[] = [];

interface FollowedCrd {
  readonly stored: StoredObject;
  /** The same list as before if the CRD did not change in a relevant way: caches depend on its identity. */
  readonly resources: readonly ServedResource[];
  /** The input of `resources`. */
  readonly fingerprint: string;
  readonly pruning: PruningMark;
}

const noConversion: ConversionServices = {
  client: { post: () => Promise.reject(new WebhookError("Unreachable", "conversion webhooks are not configured")) },
  newId: () => "",
};

function followCrd(stored: StoredObject, known: FollowedCrd | undefined, conversion: ConversionServices): FollowedCrd {
  const crd = asCrd(stored.object);
  const isEstablished =
    crd.status?.conditions?.some(({ type, status }) => type === "Established" && status === "True") === true;
  const fingerprint = JSON.stringify([
    isEstablished,
    crd.metadata.deletionTimestamp === undefined,
    crd.spec,
    crd.status?.acceptedNames,
  ]);
  if (known?.fingerprint === fingerprint) return { ...known, stored };
  const isKept = known !== undefined && keepsFields(asCrd(known.stored.object), crd);
  const pruning = isKept ? known.pruning : new PruningMark(stored.revision);
  const resources = crdResources(crd, pruning, webhookConverter(crd, conversion));
  return { stored, fingerprint, pruning, resources: resources.length === 0 ? nothing : resources };
}

interface Table {
  readonly list: readonly ServedResource[];
  readonly byPlural: ReadonlyMap<string, ServedResource>;
  readonly byKind: ReadonlyMap<string, ServedResource>;
}

function createTable(resources: readonly ServedResource[]): Table {
  const list = [...resources].sort(compareResources);
  return {
    list,
    byPlural: new Map(list.map((resource) => [identity(resource), resource])),
    byKind: new Map(list.map((resource) => [`${resource.group}/${resource.version}/${resource.kind}`, resource])),
  };
}

function identity({ group, version, plural }: ServedResource): string {
  return `${group}/${version}/${plural}`;
}

function replaceByIdentity(base: readonly ServedResource[], others: readonly ServedResource[]): readonly ServedResource[] {
  return [...new Map([...base, ...others].map((resource) => [identity(resource), resource])).values()];
}

function compareResources(a: ServedResource, b: ServedResource): number {
  return (
    groupRank(a.group) - groupRank(b.group) ||
    compareText(a.group, b.group) ||
    compareVersionPriority(a.version, b.version) ||
    compareText(a.plural, b.plural)
  );
}

function groupRank(group: string): number {
  const index = groupOrder.indexOf(group);
  return index < 0 ? groupOrder.length : index;
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
