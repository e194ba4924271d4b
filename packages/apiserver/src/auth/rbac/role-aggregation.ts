import { type DeepReadonly, isJsonObject, jsonEquals, type KubernetesObject } from "@keelson/api-machinery";
import { type LabelSelector, selectorFromObject } from "@keelson/api-machinery/selectors";
import type { Store } from "../../storage/store.ts";
import { rbacGroup } from "./role-index.ts";

/** What {@link startRoleAggregation} takes. */
export interface RoleAggregationOptions {
  readonly store: Pick<Store, "list" | "watch">;
  /** Writes the rules of a ClusterRole. */
  readonly apply: (name: string, rules: readonly unknown[]) => Promise<void>;
  /** What went wrong where nobody waits for an answer. */
  readonly onError: (error: unknown) => void;
}

const prefix = `${rbacGroup}/clusterroles/`;

/**
 * Keeps the `rules` of ClusterRoles with an `aggregationRule` what they gather from others, for people and tools to read. Decisions do
 * not depend on it: the authorizer gathers by itself, without delay.
 *
 * Resolves, when all that is there now is gathered, with the way to stop, which waits for what is being written.
 */
export async function startRoleAggregation({ store, apply, onError }: RoleAggregationOptions): Promise<() => Promise<void>> {
  let isStopped = false;
  let isDirty = true;
  let running: Promise<void> | undefined;

  const gather = async (): Promise<void> => {
    while (isDirty && !isStopped) {
      isDirty = false;
      for (const { key } of store.list(prefix).items) {
        // Read anew each time: what was just written may be gathered by the next one.
        const roles = store.list(prefix).items.map(({ object }) => object);
        const role = roles.find(({ metadata }) => key === `${prefix}/${metadata.name ?? ""}`);
        const rules = role && aggregated(role, roles);
        if (role === undefined || rules === undefined || jsonEquals(Reflect.get(role, "rules") ?? [], rules)) continue;
        await apply(role.metadata.name ?? "", rules);
        if (isStopped) return;
      }
    }
  };
  const begin = (): void => {
    isDirty = true;
    running ??= gather()
      .catch(onError)
      .finally(() => {
        running = undefined;
      });
  };

  const watch = store.watch(prefix, store.list(prefix).revision, begin);
  begin();
  await running;
  return async () => {
    isStopped = true;
    watch.close();
    await running;
  };
}

/** The rules that a role gathers, each once, by the names of the roles that they come from; undefined where it gathers none. */
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
