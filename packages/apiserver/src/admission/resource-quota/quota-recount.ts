import { jsonEquals } from "@keelson/api-machinery";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import { mapAt, valueAt } from "../../registry/object-fields.ts";
import { type Store, type StoreEvent, storageKey } from "../../storage/store.ts";
import { measure } from "./measure.ts";
import { quotaKind, withUsage } from "./resource-quota.ts";

/** What {@link startQuotaRecount} takes. */
export interface QuotaRecountOptions {
  readonly store: Pick<Store, "get" | "list" | "watch" | "write" | "revision">;
  readonly clock: Clock;
  /** Called with background errors. */
  readonly onError: (error: unknown) => void;
}

/** How long a namespace has to be quiet before it is recounted, so that usage reserved for objects on their way is not dropped. */
const quietMs = 500;

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
  readonly #timers = new Map<string, Timer>();
  readonly #running = new Set<Promise<void>>();
  #isStopped = false;

  constructor(options: QuotaRecountOptions) {
    this.#options = options;
    const { store } = options;
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
    for (const timer of this.#timers.values()) timer.cancel();
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
    this.#timers.get(namespace)?.cancel();
    const run = (): void => {
      this.#timers.delete(namespace);
      this.#recount(namespace);
    };
    this.#timers.set(namespace, this.#options.clock.setTimer(quietMs, run, { background: true }));
  }

  #recount(namespace: string): void {
    if (this.#isStopped) return;
    const running = this.#recountNow(namespace)
      .catch(this.#options.onError)
      .finally(() => this.#running.delete(running));
    this.#running.add(running);
  }

  async #recountNow(namespace: string): Promise<void> {
    const { store } = this.#options;
    for (const { key, revision, object } of store.list(storageKey(quotaKind, namespace, "")).items) {
      const next = withUsage(object, measure(store, object));
      if (jsonEquals(mapAt(next, "status"), mapAt(object, "status"))) continue;
      const result = await store.write(key, revision, next);
      // Another write triggers the next count.
      if (!result.ok && result.current !== undefined) this.#schedule(namespace);
    }
  }
}

/** The namespace of a key; `""` for cluster-scoped objects. */
function namespaceOf(key: string): string {
  return key.split("/")[2] ?? "";
}
