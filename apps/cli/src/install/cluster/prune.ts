import type { Client } from "@keelson/client";
import { Deployment } from "@keelson/api-machinery/kinds";
import type { Operator } from "@keelson/operator";
import { objectName } from "../objects/install-object.ts";
import type { InstalledObject } from "../install-parts.ts";
import { deleteObjects, planRemoval, type RemovedObject } from "./removal.ts";

/** Options of {@link findStale}. */
export interface StaleOptions {
  readonly client: Client;
  readonly namespace: string;
  readonly operators: readonly Operator[];
  readonly isComplete: boolean;
  /** Everything that the installation consists of now. */
  readonly objects: readonly InstalledObject[];
  readonly signal: AbortSignal;
}

/** Kinds that are never pruned, because users' objects would go with them. */
const kept = new Set(["CustomResourceDefinition", "Namespace", "PersistentVolumeClaim"]);

/**
 * Finds objects of earlier installations that the current values do not contain: a ServiceMonitor that was switched off, for example, or the
 * webhooks of a disabled operator, which no longer have a server.
 */
export async function findStale({ objects, ...options }: StaleOptions): Promise<readonly RemovedObject[]> {
  const current = new Set(objects.map(({ kind, metadata }) => keyOf(kind, metadata.namespace, metadata.name ?? "")));
  const { labelled, webhooks } = await planRemoval(options);
  const isRunning = (operator: string): boolean => current.has(keyOf(Deployment.kind, options.namespace, objectName(operator)));
  return [
    ...labelled.filter(({ type, namespace, name }) => !kept.has(type.kind) && !current.has(keyOf(type.kind, namespace, name))),
    ...[...webhooks].flatMap(([operator, objects]) => (isRunning(operator) ? [] : objects)),
  ];
}

/** Deletes stale objects. */
export const prune = (client: Client, stale: readonly RemovedObject[], signal: AbortSignal): Promise<void> =>
  deleteObjects(client, stale, signal);

const keyOf = (kind: string, namespace: string | undefined, name: string): string => `${kind} ${namespace ?? ""}/${name}`;
