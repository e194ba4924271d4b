import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";
import type { Store } from "../../storage/store.ts";
import type { QuotaKind } from "./usage.ts";

/** A write whose usage is reserved, and which may not be stored yet. */
export interface PendingUsage {
  readonly kind: QuotaKind;
  /** The object's key in the store. */
  readonly key: string;
  /** The revision that the write replaces; 0 for a create. */
  readonly expected: number;
  readonly object: DeepReadonly<KubernetesObject>;
  /** The object that the write replaces. */
  readonly oldObject: DeepReadonly<KubernetesObject> | undefined;
}

/**
 * Keeps the reserved usage of writes in progress, so that a recount includes it. A reservation and a recount of the same namespace run one
 * after the other: otherwise a recount could see a reservation in the quota's status before its write is known here, and drop it.
 */
export class PendingUsages {
  readonly #byNamespace = new Map<string, Set<PendingUsage>>();
  readonly #turns = new Map<string, Promise<unknown>>();
  readonly #listeners = new Set<(namespace: string) => void>();

  /** Runs `work` when all earlier work of the namespace has ended. */
  async inTurn<T>(namespace: string, work: () => T | Promise<T>): Promise<T> {
    const before = this.#turns.get(namespace) ?? Promise.resolve();
    const running = before.then(work);
    const ended = running.then(ignore, ignore);
    this.#turns.set(namespace, ended);
    try {
      return await running;
    } finally {
      if (this.#turns.get(namespace) === ended) this.#turns.delete(namespace);
    }
  }

  /** Adds a write whose usage is reserved. The result removes it once the write is stored or has failed. */
  add(namespace: string, usage: PendingUsage): () => void {
    let usages = this.#byNamespace.get(namespace);
    if (usages === undefined) this.#byNamespace.set(namespace, (usages = new Set()));
    usages.add(usage);
    return () => {
      usages.delete(usage);
      if (usages.size === 0 && this.#byNamespace.get(namespace) === usages) this.#byNamespace.delete(namespace);
      for (const listener of this.#listeners) listener(namespace);
    };
  }

  /** The writes of a namespace that are not in the store yet. A write whose object has changed since then fails or is repeated. */
  unstored(namespace: string, store: Pick<Store, "get">): readonly PendingUsage[] {
    return [...(this.#byNamespace.get(namespace) ?? [])].filter(
      ({ key, expected }) => (store.get(key)?.revision ?? 0) === expected,
    );
  }

  /** Calls `listener` when a write of a namespace has ended. The result stops it. */
  onEnd(listener: (namespace: string) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

function ignore(): void {}
