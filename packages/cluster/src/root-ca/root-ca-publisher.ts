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
  const { client, rootCa, clock, random, log } = options;
  const stop = new AbortController();
  const terminating = new Map<string, boolean>();
  const published = new Map<string, DeepReadonly<ConfigMapObject>>();
  let isListed = false;

  const reconcile = async (namespace: string, signal: AbortSignal): Promise<void> => {
    if (!isListed || terminating.get(namespace) !== false) return;
    const current = published.get(namespace);
    const key = { namespace, name: rootCaConfigMap };
    const annotations = { ...current?.metadata.annotations, [descriptionAnnotation]: description };
    try {
      if (current === undefined) {
        await client.create(ConfigMap, { metadata: { ...key, annotations }, data: { [dataKey]: rootCa } }, { signal });
      } else if (!isUpToDate(current, rootCa)) {
        const { binaryData: _binaryData, ...rest } = current;
        const metadata = { ...current.metadata, annotations };
        await client.update(ConfigMap, { ...rest, metadata, data: { [dataKey]: rootCa } }, { signal });
      }
    } catch (error) {
      // The watch shows the newer object, or the namespace is being deleted.
      if (isAlreadyExists(error) || isConflict(error) || isNotFound(error) || isStatusError(error, "Forbidden")) return;
      throw error;
    }
  };
  const workers = new KeyedWorkers({ clock, random, log, concurrency: 2, work: reconcile });
  const common = { client, clock, random, log };
  const namespaces = new Informer({
    ...common,
    type: Namespace,
    onEffect(effect) {
      if (effect.kind === "replace") terminating.clear();
      for (const { metadata } of objectsOf(effect)) {
        const { name = "", deletionTimestamp } = metadata;
        if (effect.kind === "remove") terminating.delete(name);
        else terminating.set(name, deletionTimestamp !== undefined);
        workers.add(name);
      }
    },
  });
  const configMaps = new Informer({
    ...common,
    type: ConfigMap,
    selection: { fieldSelector: `metadata.name=${rootCaConfigMap}` },
    onEffect(effect) {
      if (effect.kind === "replace") {
        published.clear();
        isListed = true;
        for (const namespace of terminating.keys()) workers.add(namespace);
      }
      for (const object of objectsOf(effect)) {
        const { namespace = "" } = object.metadata;
        if (effect.kind === "remove") published.delete(namespace);
        else published.set(namespace, object);
        workers.add(namespace);
      }
    },
  });
  const running = [namespaces.run(stop.signal), configMaps.run(stop.signal)];
  return {
    async stop() {
      stop.abort();
      await workers.stop();
      await Promise.all(running);
    },
  };
}

function objectsOf(effect: StoreEffect) {
  return effect.kind === "replace" ? effect.objects : [effect.object];
}

function isUpToDate({ data, binaryData, metadata }: DeepReadonly<ConfigMapObject>, rootCa: string): boolean {
  const isExact = data?.[dataKey] === rootCa && Object.keys(data).length === 1 && binaryData === undefined;
  return isExact && metadata.annotations?.[descriptionAnnotation] === description;
}
