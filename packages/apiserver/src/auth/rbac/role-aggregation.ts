import { type DeepReadonly, isJsonObject, jsonEquals, type KubernetesObject } from "@keelson/api-machinery";
import { type LabelSelector, selectorFromObject } from "@keelson/api-machinery/selectors";
import type { Store } from "../../storage/store.ts";
import { rbacGroup } from "./role-index.ts";

/** What {@link startRoleAggregation} takes. */
export interface RoleAggregationOptions {
  readonly store: Pick<Store, "list" | "watch">;
  /** Applies the rules of a ClusterRole. */
  readonly apply: (name: string, rules: readonly unknown[]) => Promise<void>;
  /** Called with background errors. */
  readonly onError: (error: unknown) => void;
}

const prefix = `${rbacGroup}/clusterroles/`;

/**
 * Maintains the `rules` of ClusterRoles with an `aggregationRule`, for people and tools to read. Authorization does not depend on it: the
 * authorizer aggregates without delay.
 *
 * Resolves after the first pass with a function that stops it and waits for writes in progress.
 */
export async function startRoleAggregation({ store, apply, onError }: RoleAggregationOptions): Promise<() => Promise<void>> {
  let isStopped = false;
  let isDirty = true;
  let running: Promise<void> | undefined;

  const aggregateAll = async (): Promise<void> => {
    while (isDirty && !isStopped) {
      isDirty = false;
      for (const { key } of store.list(prefix).items) {
        // Lists again for every role: the next one may aggregate what was just written.
        const roles = store.list(prefix).items.map(({ object }) => object);
        const role = roles.find(({ metadata }) => key === `${prefix}/${metadata.name ?? ""}`);
        const rules = role && aggregated(role, roles);
        if (role === undefined || rules === undefined || jsonEquals(Reflect.get(role, "rules") ?? [], rules)) continue;
        await apply(role.metadata.name ?? "", rules);
        if (isStopped) return;
      }
    }
  };
  const trigger = (): void => {
    isDirty = true;
    running ??= aggregateAll()
      .catch(onError)
      .finally(() => {
        running = undefined;
      });
  };

  const watch = store.watch(prefix, store.list(prefix).revision, trigger);
  trigger();
  await running;
  return async () => {
    isStopped = true;
    watch.close();
    await running;
  };
}

/** The distinct rules that a role aggregates, ordered by source role; undefined if it has no aggregationRule. */
export function aggregated(
  role: DeepReadonly<KubernetesObject>,
  roles: readonly DeepReadonly<KubernetesObject>[],
): readonly unknown[] | undefined {
  const aggregationRule: unknown = Reflect.get(role, "aggregationRule");
  const selectors = isJsonObject(aggregationRule) ? aggregationRule["clusterRoleSelectors"] : undefined;
  if (!Array.isArray(selectors)) return undefined;
  const parsed = selectors.map((selector) => selectorFromObject(selector as unknown as LabelSelector));
  const rules: unknown[] = [];
  const byName = [...roles].sort((a, b) => ((a.metadata.name ?? "") < (b.metadata.name ?? "") ? -1 : 1));
  for (const other of byName) {
    if (other.metadata.name === role.metadata.name) continue;
    if (!parsed.some((selector) => selector.matches(other.metadata.labels ?? {}))) continue;
    const own: unknown = Reflect.get(other, "rules");
    for (const rule of Array.isArray(own) ? own : []) if (!rules.some((known) => jsonEquals(known, rule))) rules.push(rule);
  }
  return rules;
}
