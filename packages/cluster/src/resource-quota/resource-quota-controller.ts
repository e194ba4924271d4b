import { type DeepReadonly, isConflict, isNotFound, jsonEquals } from "@keelson/api-machinery";
import { ResourceQuota, type ResourceQuotaObject } from "@keelson/api-machinery/kinds";
import { measureQuota, quotaKindsOf, quotaStatus } from "@keelson/api-machinery/quota";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Logger } from "@keelson/controller";
import { Informer, type StoreEffect } from "@keelson/controller/informer";
import type { KindSource } from "../garbage-collector/object-monitor.ts";
import { KeyedWorkers } from "../keyed-workers.ts";
import { CountedObjects } from "./counted-objects.ts";

/** Options of {@link startResourceQuotaController}. */
export interface ResourceQuotaControllerOptions {
  /** Reads objects of every kind and updates the status of ResourceQuotas. */
  readonly client: Client;
  /** The kinds that quotas can count. */
  readonly kinds: KindSource;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
}

/** A namespace is counted when it has been quiet for this long, so that usage reserved for objects that are about to be stored is kept. */
const quietMs = 500;
/** A namespace that is never quiet is counted after this time. */
const maxDelayMs = 5_000;

type CachedQuota = DeepReadonly<ResourceQuotaObject>;

/**
 * Keeps the status of ResourceQuotas, as kube-controller-manager's resource quota controller does: it counts when a quota is created or its
 * spec changes, and after objects in its namespace were deleted or changed. Admission of the API server reserves usage in the same status;
 * the resource version of the update detects a reservation in between.
 */
export function startResourceQuotaController(options: ResourceQuotaControllerOptions): { stop(): Promise<void> } {
  return new ResourceQuotaController(options);
}

class ResourceQuotaController {
  readonly #client: Client;
  readonly #clock: Clock;
  readonly #workers: KeyedWorkers;
  readonly #counted: CountedObjects;
  /** By namespace and name. */
  readonly #quotas = new Map<string, Map<string, CachedQuota>>();
  /** The status that was last written, by uid. */
  readonly #counts = new Map<string, NonNullable<CachedQuota["status"]>>();
  readonly #delayed = new Map<string, { readonly timer: Timer; readonly since: number }>();
  readonly #stopping = new AbortController();
  readonly #running: Promise<void>;

  constructor({ client, kinds, clock, random, log }: ResourceQuotaControllerOptions) {
    this.#client = client;
    this.#clock = clock;
    const work = (namespace: string, signal: AbortSignal): Promise<void> => this.#recount(namespace, signal);
    this.#workers = new KeyedWorkers({ clock, random, log, concurrency: 2, work });
    this.#counted = new CountedObjects({
      ...{ client, kinds, clock, random, log },
      onChange: (namespace) => this.#delay(namespace),
      onKind: () => {
        for (const namespace of this.#quotas.keys()) this.#workers.add(namespace);
      },
    });
    const onEffect = (effect: StoreEffect): void => this.#apply(effect);
    this.#running = new Informer({ client, type: ResourceQuota, clock, random, log, onEffect }).run(this.#stopping.signal);
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    for (const { timer } of this.#delayed.values()) timer.cancel();
    this.#delayed.clear();
    await this.#counted.stop();
    await this.#workers.stop();
    await this.#running;
  }

  #apply(effect: StoreEffect): void {
    if (effect.kind === "replace") {
      this.#quotas.clear();
      this.#counts.clear();
      for (const quota of effect.objects) this.#put(quota);
      this.#follow();
      for (const namespace of this.#quotas.keys()) this.#workers.add(namespace);
      return;
    }
    const quota: CachedQuota = effect.object;
    const { namespace = "", name = "" } = quota.metadata;
    if (effect.kind === "remove") {
      this.#remove(namespace, name);
      this.#counts.delete(quota.metadata.uid ?? "");
      return this.#follow();
    }
    const previous = this.#quotas.get(namespace)?.get(name);
    this.#put(quota);
    if (previous !== undefined && jsonEquals(previous.spec, quota.spec)) {
      // A reservation may be for an object that is never stored.
      if (!jsonEquals(quota.status, this.#counts.get(quota.metadata.uid ?? ""))) this.#delay(namespace);
      return;
    }
    this.#follow();
    this.#workers.add(namespace);
  }

  #put(quota: CachedQuota): void {
    const { namespace = "", name = "" } = quota.metadata;
    const quotas = this.#quotas.get(namespace) ?? new Map<string, CachedQuota>();
    this.#quotas.set(namespace, quotas.set(name, quota));
  }

  #remove(namespace: string, name: string): void {
    const quotas = this.#quotas.get(namespace);
    quotas?.delete(name);
    if (quotas?.size === 0) this.#quotas.delete(namespace);
  }

  #follow(): void {
    const quotas = [...this.#quotas.values()].flatMap((each) => [...each.values()]);
    this.#counted.follow(quotas.flatMap(quotaKindsOf));
  }

  #delay(namespace: string): void {
    if (this.#stopping.signal.aborted || !this.#quotas.has(namespace)) return;
    const now = this.#clock.monotonic();
    const pending = this.#delayed.get(namespace);
    const since = pending?.since ?? now;
    pending?.timer.cancel();
    const run = (): void => {
      this.#delayed.delete(namespace);
      this.#workers.add(namespace);
    };
    const delayMs = Math.min(quietMs, Math.max(since + maxDelayMs - now, 0));
    this.#delayed.set(namespace, { timer: this.#clock.setTimer(delayMs, run, { background: true }), since });
  }

  async #recount(namespace: string, signal: AbortSignal): Promise<void> {
    for (const quota of this.#quotas.get(namespace)?.values() ?? []) {
      if (!quotaKindsOf(quota).every((kind) => this.#counted.isListed(kind))) continue;
      const used = measureQuota(quota, (kind) => this.#counted.in(namespace, kind));
      const status = quotaStatus(quota, used);
      if (jsonEquals(status, quota.status)) continue;
      try {
        this.#counts.set(quota.metadata.uid ?? "", status);
        await this.#client.update(ResourceQuota, { ...quota, status }, { subresource: "status", signal });
      } catch (error) {
        // The watch shows the newer quota, which is counted again.
        if (!isConflict(error) && !isNotFound(error)) throw error;
      }
    }
  }
}
