import type { DeepReadonly } from "@keelson/api-machinery";
import type { Group } from "../../api/group.ts";
import { labels } from "../../api/names.ts";

/** A Group of an App, and the names of its parts. */
export interface FoundGroup {
  readonly group: DeepReadonly<Group>;
  readonly component: string;
  readonly name: string;
}

/** Finds the Group of an App with these names, or the only one. Groups without a primary have no data of their own. */
export function findDataGroup(
  groups: readonly DeepReadonly<Group>[],
  wanted: { readonly component?: string | undefined; readonly group?: string | undefined },
): FoundGroup | { readonly problem: string } {
  const found = groups
    .map((group) => ({
      group,
      component: group.metadata.labels?.[labels.component] ?? "",
      name: group.metadata.labels?.[labels.group] ?? "",
    }))
    .filter(({ group }) => group.status?.primary !== undefined)
    .filter(
      ({ component, name }) =>
        (wanted.component === undefined || component === wanted.component) &&
        (wanted.group === undefined || name === wanted.group),
    );
  const [only] = found;
  if (only === undefined) return { problem: "the App has no group with a primary" };
  if (found.length === 1) return only;
  const names = found.map(({ component, name }) => `${component}/${name}`).join(", ");
  return { problem: `spec.app.component and spec.app.group: must choose one of ${names}` };
}
