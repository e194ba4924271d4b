import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";
import { mapAt } from "../../registry/object-fields.ts";
import { type Store, storageKey } from "../../storage/store.ts";
import { addAmounts, type ResourceAmounts } from "../../registry/kinds/pod/pod-resources.ts";
import type { PendingUsage } from "./pending-usage.ts";
import { matchesScopes } from "./scopes.ts";
import { kindOfQuotaResource, type QuotaKind, usageAdded, usageOf } from "./usage.ts";

/**
 * Counts what the objects in a quota's namespace use of the resources that it limits.
 *
 * @param unstored writes to add, whose usage is reserved
 */
export function measure(
  store: Pick<Store, "list">,
  quota: DeepReadonly<KubernetesObject>,
  unstored: readonly PendingUsage[] = [],
): ResourceAmounts {
  const { namespace = "" } = quota.metadata;
  const kinds = new Map<string, QuotaKind>();
  let used: ResourceAmounts = {};
  const names = Object.keys(mapAt(quota, "spec", "hard"));
  for (const name of names) {
    const kind = kindOfQuotaResource(name);
    if (kind === undefined) continue;
    used = { ...used, [name]: "0" };
    kinds.set(`${kind.group}/${kind.plural}`, kind);
  }
  const add = (usage: ResourceAmounts): void => {
    used = addAmounts(used, Object.fromEntries(Object.entries(usage).filter(([name]) => Object.hasOwn(used, name))));
  };
  for (const kind of kinds.values()) {
    for (const { object } of store.list(storageKey(kind, namespace, "")).items) {
      if (matchesScopes(quota, kind, object)) add(usageOf(kind, object));
    }
  }
  for (const { kind, object, oldObject } of unstored) {
    if (matchesScopes(quota, kind, object)) add(usageAdded(kind, object, oldObject));
  }
  return used;
}
