import type { CacheOptions } from "../cache/cache-options.ts";
import type { ControllerDefinition } from "../reconcile/controller-definition.ts";
import type { ManagerOptions } from "./manager.ts";

/** The cache options of a manager, with its `namespaces`. */
export function cacheOptionsOf({ cache = {}, namespaces }: ManagerOptions): CacheOptions {
  return namespaces === undefined ? cache : { ...cache, namespaces };
}

/**
 * The maximum of concurrent reconciles of a controller: its own, or the manager's for the kind or for all.
 *
 * **Errors**: `TypeError` with the controller's name if it is not a positive whole number.
 */
export function concurrencyOf(definition: ControllerDefinition, options: ManagerOptions): number {
  const { group, kind } = definition.for;
  const ofKind = options.groupKindConcurrency?.[group === "" ? kind : `${kind}.${group}`];
  const count = definition.maxConcurrentReconciles ?? ofKind ?? options.maxConcurrentReconciles ?? 1;
  if (Number.isInteger(count) && count > 0) return count;
  throw new TypeError(
    `controller ${JSON.stringify(definition.name)}: maxConcurrentReconciles must be a whole number of at least 1, got ${count}`,
  );
}
