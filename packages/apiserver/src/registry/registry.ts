import { draft, type KubernetesObject } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { Store, StoredObject } from "../storage/store.ts";
import { type BuiltinKindsOptions, builtinKinds, groupOrder } from "./builtin-kinds.ts";
import { deleteAll } from "./crd/crd-cleanup.ts";
import { decideStatus } from "./crd/crd-conditions.ts";
import { crdResources } from "./crd/crd-resources.ts";
import { asCrd, cleanupFinalizer, crdResource } from "./crd/crd-spec.ts";
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
  const { store, clock, onError = () => undefined } = options;
  const stopped = new AbortController();
  const builtin = replaceByIdentity(builtinKinds(options), options.kinds ?? []);
  const crds = new Map<string, FollowedCrd>();
  const listeners = new Set<() => void>();
  const working = new Set<Promise<void>>();
  const leaving = new Set<string>();
  let names: Promise<void> = Promise.resolve();
  let table = createTable(builtin);

  const now = (): number => clock.now();

  const rebuild = (): void => {
    table = createTable([...builtin, ...[...crds.values()].flatMap(({ resources }) => resources)]);
    for (const listener of [...listeners]) listener();
  };

  /** Applies the stored state of one CRD. Returns whether the served kinds have changed. */
  const follow = (key: string, stored: StoredObject | undefined): boolean => {
    const known = crds.get(key);
    if (stored === undefined) {
      crds.delete(key);
      return known !== undefined && known.resources.length > 0;
    }
    const followed = followCrd(stored, known, options.conversion ?? noConversion);
    crds.set(key, followed);
    return followed.resources !== (known?.resources ?? nothing);
  };

  /** Decides the names of one CRD. Names go to the first CRD, so this runs for one at a time. */
  const decideNames = async (key: string): Promise<void> => {
    for (;;) {
      const stored = crds.get(key)?.stored;
      if (stored === undefined || stored.object.metadata.deletionTimestamp !== undefined || stopped.signal.aborted) return;
      const others = [...crds.values()].map((followed) => asCrd(followed.stored.object));
      const status = decideStatus(asCrd(stored.object), others, `${new Date(now()).toISOString().slice(0, 19)}Z`);
      if (status === undefined) return;
      await store.write(key, stored.revision, { ...draft(stored.object), status: draft(status) } as KubernetesObject);
      // Written or not, the watch has delivered a newer state by now, unless the CRD was deleted.
      if (crds.get(key)?.stored === stored) return;
    }
  };

  /** Deletes the objects of a terminating CRD, then the CRD. */
  const cleanUp = async (key: string): Promise<void> => {
    for (;;) {
      const stored = crds.get(key)?.stored;
      if (stored?.object.metadata.deletionTimestamp === undefined) return;
      const crd = asCrd(stored.object);
      const finalizers = crd.metadata.finalizers?.filter((finalizer) => finalizer !== cleanupFinalizer) ?? [];
      if (finalizers.length === (crd.metadata.finalizers?.length ?? 0)) return;
      await deleteAll(store, `${crd.spec.group}/${crd.spec.names.plural}/`, { now, signal: stopped.signal });
      const next = finalizers.length === 0 ? undefined : draft(stored.object);
      if (next !== undefined) next.metadata.finalizers = finalizers;
      await store.write(key, stored.revision, next);
      if (crds.get(key)?.stored === stored) return;
    }
  };

  const own = (work: Promise<void>): void => {
    const owned = work
      .catch((error: unknown) => {
        if (!stopped.signal.aborted) onError(error);
      })
      .finally(() => working.delete(owned));
    working.add(owned);
  };

  const enqueue = (key: string): void => {
    if (crds.get(key)?.stored.object.metadata.deletionTimestamp === undefined) {
      const turn = names.then(() => decideNames(key));
      names = turn.catch(() => undefined);
      own(turn);
    } else if (!leaving.has(key)) {
      leaving.add(key);
      own(cleanUp(key).finally(() => leaving.delete(key)));
    }
  };

  /** Reconsiders the other CRDs of a group after names were allocated or released. */
  const enqueueGroup = (key: string, group: string): void => {
    for (const [other, { stored }] of crds) {
      if (other !== key && asCrd(stored.object).spec.group === group) enqueue(other);
    }
  };

  const { items, revision } = store.list(crdPrefix);
  for (const stored of items) follow(stored.key, stored);
  if (items.length > 0) rebuild();
  for (const { key } of items) enqueue(key);

  const watch = store.watch(crdPrefix, revision, (events) => {
    let isChanged = false;
    for (const event of events) {
      const { key } = event.object;
      const group = asCrd(event.object.object).spec.group;
      isChanged = follow(key, event.type === "put" ? event.object : undefined) || isChanged;
      if (event.type === "put") enqueue(key);
      else enqueueGroup(key, group);
    }
    if (isChanged) rebuild();
  });

  return {
    get: (group, version, plural) => table.byPlural.get(`${group}/${version}/${plural}`),
    byKind: (group, version, kind) => table.byKind.get(`${group}/${version}/${kind}`),
    list: () => table.list,
    onChange(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    async close() {
      watch.close();
      stopped.abort(new Error("the registry is closed"));
      listeners.clear();
      await Promise.all(working);
    },
  };
}

/** The resources of a CRD that is not established, always the same list. */
const nothing: readonly ServedResource[] = [];

interface FollowedCrd {
  readonly stored: StoredObject;
  /** The same list as before if the CRD did not change in a relevant way: caches depend on its identity. */
  readonly resources: readonly ServedResource[];
  /** The input of `resources`. */
  readonly fingerprint: string;
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
  const resources = crdResources(crd, webhookConverter(crd, conversion));
  return { stored, fingerprint, resources: resources.length === 0 ? nothing : resources };
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
