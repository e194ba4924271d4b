import { jsonEquals } from "@keelson/api-machinery";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import { mapAt, valueAt } from "../../registry/object-fields.ts";
import { type Store, type StoreEvent, storageKey } from "../../storage/store.ts";
import { measure } from "./measure.ts";
import type { PendingUsages } from "./pending-usage.ts";
import { quotaKind, withUsage } from "./resource-quota.ts";

/** What {@link startQuotaRecount} takes. */
export interface QuotaRecountOptions {
  readonly store: Pick<Store, "get" | "list" | "watch" | "write" | "revision">;
  /** Reserved usage that the store does not show yet. */
  readonly pending: PendingUsages;
  readonly clock: Clock;
  /** Called with background errors. */
  readonly onError: (error: unknown) => void;
}

/** How long a namespace has to be quiet before it is recounted, so that a burst of changes is counted once. */
const quietMs = 500;

/** A namespace that is never quiet is recounted after this time, so that usage of deleted objects is released. */
const maxDelayMs = 5_000;

const prefix = `${quotaKind.group}/${quotaKind.plural}/`;

/**
 * Keeps the status of ResourceQuotas, as the controller of kube-controller-manager does: it counts when a quota is created or changed, and after
 * objects in its namespace were deleted or changed. It runs in the server because a quota can count objects of any kind.
 */
export function startQuotaRecount(options: QuotaRecountOptions): { stop(): Promise<void> } {
  return new QuotaRecount(options);
}

class QuotaRecount {
  readonly #options: QuotaRecountOptions;
  readonly #watch: { close(): void };
  /** Quotas per namespace. */
  readonly #quotas = new Map<string, Set<string>>();
  /** Namespaces to recount, with the time of the first change. */
  readonly #timers = new Map<string, { readonly timer: Timer; readonly since: number }>();
  /** Namespaces whose last count included writes that were not stored yet. */
  readonly #preliminary = new Set<string>();
  readonly #stopEnds: () => void;
  readonly #running = new Set<Promise<void>>();
  #isStopped = false;

  constructor(options: QuotaRecountOptions) {
    this.#options = options;
    const { store, pending } = options;
    this.#stopEnds = pending.onEnd((namespace) => {
      if (this.#preliminary.has(namespace)) this.#schedule(namespace);
    });
    const { items, revision } = store.list(prefix);
    for (const { key } of items) this.#note(key);
    this.#watch = store.watch("", revision, (events) => {
      for (const event of events) this.#onEvent(event);
    });
    for (const { key } of items) this.#recount(namespaceOf(key));
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#watch.close();
    this.#stopEnds();
    for (const { timer } of this.#timers.values()) timer.cancel();
    this.#timers.clear();
    await Promise.all(this.#running);
  }

  #note(key: string): void {
    const namespace = namespaceOf(key);
    this.#quotas.set(namespace, (this.#quotas.get(namespace) ?? new Set()).add(key));
  }

  #onEvent({ type, object, previous }: StoreEvent): void {
    const { key } = object;
    const isQuota = key.startsWith(prefix);
    if (!isQuota && this.#quotas.size === 0) return;
    const namespace = namespaceOf(key);
    if (!isQuota) {
      if (this.#quotas.has(namespace)) this.#schedule(namespace);
      return;
    }
    if (type === "delete") {
      const quotas = this.#quotas.get(namespace);
      quotas?.delete(key);
      if (quotas?.size === 0) this.#quotas.delete(namespace);
      return;
    }
    this.#note(key);
    const isChanged = previous === undefined || !jsonEquals(valueAt(object.object, "spec"), valueAt(previous.object, "spec"));
    if (isChanged) this.#recount(namespace);
    else this.#schedule(namespace);
  }

  #schedule(namespace: string): void {
    if (this.#isStopped) return;
    const { clock } = this.#options;
    const scheduled = this.#timers.get(namespace);
    const since = scheduled?.since ?? clock.now();
    if (clock.now() - since > maxDelayMs - quietMs) return;
    scheduled?.timer.cancel();
    const run = (): void => {
      this.#timers.delete(namespace);
      this.#recount(namespace);
    };
    this.#timers.set(namespace, { timer: clock.setTimer(quietMs, run, { background: true }), since });
  }

  #recount(namespace: string): void {
    if (this.#isStopped) return;
    const running = this.#recountNow(namespace)
      .catch(this.#options.onError)
      .finally(() => this.#running.delete(running));
    this.#running.add(running);
  }

  async #recountNow(namespace: string): Promise<void> {
    const { store, pending } = this.#options;
    this.#preliminary.delete(namespace);
    for (const { key } of store.list(storageKey(quotaKind, namespace, "")).items) {
      await pending.inTurn(namespace, () => this.#recountQuota(namespace, key));
    }
  }

  async #recountQuota(namespace: string, key: string): Promise<void> {
    const { store, pending } = this.#options;
    const quota = store.get(key);
    if (quota === undefined) return;
    const unstored = pending.unstored(namespace, store);
    if (unstored.length > 0) this.#preliminary.add(namespace);
    const next = withUsage(quota.object, measure(store, quota.object, unstored));
    if (jsonEquals(mapAt(next, "status"), mapAt(quota.object, "status"))) return;
    const result = await store.write(key, quota.revision, next);
    // Another write triggers the next count.
    if (!result.ok && result.current !== undefined) this.#schedule(namespace);
  }
}

/** The namespace of a key; `""` for cluster-scoped objects. */
function namespaceOf(key: string): string {
  return key.split("/")[2] ?? "";
}
