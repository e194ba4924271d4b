import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";
import { mapAt } from "../../registry/object-fields.ts";
import { type Store, storageKey } from "../../storage/store.ts";
import { addAmounts, type ResourceAmounts } from "../../registry/kinds/pod/pod-resources.ts";
import { matchesScopes } from "./scopes.ts";
import { kindOfQuotaResource, type QuotaKind, usageOf } from "./usage.ts";

/** Counts what the objects in a quota's namespace use of the resources that it limits. */
export function measure(store: Pick<Store, "list">, quota: DeepReadonly<KubernetesObject>): ResourceAmounts {
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
  for (const kind of kinds.values()) {
    for (const { object } of store.list(storageKey(kind, namespace, "")).items) {
      if (!matchesScopes(quota, kind, object)) continue;
      const usage = Object.entries(usageOf(kind, object)).filter(([name]) => Object.hasOwn(used, name));
      used = addAmounts(used, Object.fromEntries(usage));
    }
  }
  return used;
}
