import type { DeepReadonly } from "../objects/json.ts";
import type { KubernetesObject } from "../objects/object.ts";
import { mapAt } from "../objects/object-fields.ts";
import { formatQuantity } from "../values/quantity.ts";
import { addAmounts, type ResourceAmounts } from "./pod-resources.ts";
import { matchesScopes } from "./quota-scopes.ts";
import { kindOfQuotaResource, type QuotaKind, usageOf } from "./quota-usage.ts";

/** The kinds that a ResourceQuota counts or measures, each once. */
export function quotaKindsOf(quota: DeepReadonly<KubernetesObject>): readonly QuotaKind[] {
  const kinds = new Map<string, QuotaKind>();
  for (const name of Object.keys(mapAt(quota, "spec", "hard"))) {
    const kind = kindOfQuotaResource(name);
    if (kind !== undefined) kinds.set(`${kind.group}/${kind.plural}`, kind);
  }
  return [...kinds.values()];
}

/**
 * Counts what objects use of the resources that a ResourceQuota limits. `objectsOf` returns the objects of a kind in the quota's namespace.
 * Resources that cannot be counted are omitted.
 */
export function measureQuota(
  quota: DeepReadonly<KubernetesObject>,
  objectsOf: (kind: QuotaKind) => Iterable<DeepReadonly<KubernetesObject>>,
): ResourceAmounts {
  const names = Object.keys(mapAt(quota, "spec", "hard")).filter((name) => kindOfQuotaResource(name) !== undefined);
  let used: ResourceAmounts = Object.fromEntries(names.map((name) => [name, "0"]));
  for (const kind of quotaKindsOf(quota)) {
    for (const object of objectsOf(kind)) {
      if (!matchesScopes(quota, kind, object)) continue;
      const usage = Object.entries(usageOf(kind, object)).filter(([name]) => Object.hasOwn(used, name));
      used = addAmounts(used, Object.fromEntries(usage));
    }
  }
  return used;
}

/** The status of a ResourceQuota with this usage. */
export function quotaStatus(
  quota: DeepReadonly<KubernetesObject>,
  used: ResourceAmounts,
): { readonly hard: Record<string, string>; readonly used: Record<string, string> } {
  const texts = Object.entries(used).map(([name, amount]) => [name, formatQuantity(amount)] as const);
  const hard = Object.entries(mapAt(quota, "spec", "hard")).map(([name, amount]) => [name, String(amount)] as const);
  return {
    hard: Object.fromEntries(hard),
    used: Object.fromEntries(texts.sort(([a], [b]) => (a < b ? -1 : 1))),
  };
}
