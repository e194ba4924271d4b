import { type DeepReadonly, isAlreadyExists, isConflict, isNotFound, isStatusError } from "@keelson/api-machinery";
import { ConfigMap, type ConfigMapObject, Namespace } from "@keelson/api-machinery/kinds";
import type { Clock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Logger } from "@keelson/controller";
import { Informer, type StoreEffect } from "@keelson/controller/informer";
import { KeyedWorkers } from "../keyed-workers.ts";

/** The ConfigMap with the cluster's CA in every namespace (KEP-1205). */
export const rootCaConfigMap = "kube-root-ca.crt";
const dataKey = "ca.crt";
const descriptionAnnotation = "kubernetes.io/description";
/** The text of kube-controller-manager 1.35. */
const description =
  "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or " +
  "kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";

/** Options of {@link startRootCaPublisher}. */
export interface RootCaPublisherOptions {
  readonly client: Client;
  /** The CA in PEM. */
  readonly rootCa: string;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
}

/**
 * Keeps ConfigMap {@link rootCaConfigMap} with the cluster's CA in every namespace, as kube-controller-manager's root CA publisher does:
 * a deleted or changed one is restored.
 */
export function startRootCaPublisher(options: RootCaPublisherOptions): { stop(): Promise<void> } {
  return new RootCaPublisher(options);
}

class RootCaPublisher {
  readonly #client: Client;
  readonly #rootCa: string;
  readonly #workers: KeyedWorkers;
  /** Whether a namespace is being deleted. */
  readonly #terminating = new Map<string, boolean>();
  readonly #published = new Map<string, DeepReadonly<ConfigMapObject>>();
  readonly #stopping = new AbortController();
  readonly #running: readonly Promise<void>[];
  #isListed = false;

  constructor({ client, rootCa, clock, random, log }: RootCaPublisherOptions) {
    this.#client = client;
    this.#rootCa = rootCa;
    const work = (namespace: string, signal: AbortSignal): Promise<void> => this.#publish(namespace, signal);
    this.#workers = new KeyedWorkers({ clock, random, log, concurrency: 2, work });
    const common = { client, clock, random, log };
    const namespaces = new Informer({
      ...common,
      type: Namespace,
      onEffect: (effect) => this.#applyNamespaces(effect),
    });
    const configMaps = new Informer({
      ...common,
      type: ConfigMap,
      selection: { fieldSelector: `metadata.name=${rootCaConfigMap}` },
      onEffect: (effect) => this.#applyConfigMaps(effect),
    });
    this.#running = [namespaces.run(this.#stopping.signal), configMaps.run(this.#stopping.signal)];
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#workers.stop();
    await Promise.all(this.#running);
  }

  #applyNamespaces(effect: StoreEffect): void {
    if (effect.kind === "replace") this.#terminating.clear();
    for (const { metadata } of objectsOf(effect)) {
      const { name = "", deletionTimestamp } = metadata;
      if (effect.kind === "remove") this.#terminating.delete(name);
      else this.#terminating.set(name, deletionTimestamp !== undefined);
      this.#workers.add(name);
    }
  }

  #applyConfigMaps(effect: StoreEffect): void {
    if (effect.kind === "replace") {
      this.#published.clear();
      this.#isListed = true;
      for (const namespace of this.#terminating.keys()) this.#workers.add(namespace);
    }
    for (const object of objectsOf(effect)) {
      const { namespace = "" } = object.metadata;
      if (effect.kind === "remove") this.#published.delete(namespace);
      else this.#published.set(namespace, object);
      this.#workers.add(namespace);
    }
  }

  async #publish(namespace: string, signal: AbortSignal): Promise<void> {
    if (!this.#isListed || this.#terminating.get(namespace) !== false) return;
    const current = this.#published.get(namespace);
    const key = { namespace, name: rootCaConfigMap };
    const annotations = { ...current?.metadata.annotations, [descriptionAnnotation]: description };
    const data = { [dataKey]: this.#rootCa };
    try {
      if (current === undefined) {
        await this.#client.create(ConfigMap, { metadata: { ...key, annotations }, data }, { signal });
      } else if (!isUpToDate(current, this.#rootCa)) {
        const { binaryData: _binaryData, ...rest } = current;
        const metadata = { ...current.metadata, annotations };
        await this.#client.update(ConfigMap, { ...rest, metadata, data }, { signal });
      }
    } catch (error) {
      // The watch shows the newer object, or the namespace is being deleted.
      if (isAlreadyExists(error) || isConflict(error) || isNotFound(error) || isStatusError(error, "Forbidden")) return;
      throw error;
    }
  }
}

function objectsOf(effect: StoreEffect) {
  return effect.kind === "replace" ? effect.objects : [effect.object];
}

function isUpToDate({ data, binaryData, metadata }: DeepReadonly<ConfigMapObject>, rootCa: string): boolean {
  const isExact = data?.[dataKey] === rootCa && Object.keys(data).length === 1 && binaryData === undefined;
  return isExact && metadata.annotations?.[descriptionAnnotation] === description;
}
