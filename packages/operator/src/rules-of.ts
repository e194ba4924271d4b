import type { ResourceType } from "@keelson/api-machinery";
import type { PolicyRule } from "@keelson/api-machinery/kinds";
import type { ControllerDefinition } from "@keelson/controller";
import { clusterRulesOf } from "./runtime-rules.ts";

/** Writes of controllers to a kind. */
export interface WriteRight {
  readonly type: ResourceType;
  /** `client.apply` needs `patch`, and `create` if the object may not exist. */
  readonly verbs: readonly ("create" | "update" | "patch" | "delete" | "deletecollection")[];
  /** For example `status` or `scale`. Default: the object itself. */
  readonly subresource?: string;
}

/**
 * The rules of a ClusterRole for controllers: read and watch access to every kind that they declare (`for`, `owns`, `watches`,
 * `reads`), the writes in `writes`, `update` of `finalizers` for kinds that own objects (required by the admission plugin
 * OwnerReferencesPermissionEnforcement), and the rules of the runtime. The rules are sorted, so that a generated manifest is stable.
 * For the lease see {@link leaderElectionRules}.
 *
 * Writes cannot be derived from declarations. To find missing ones, test with a client that has only these rules.
 *
 * **Example**
 *
 *     rulesOf([lamps], [
 *       { type: Lamp, verbs: ["patch"], subresource: "status" },
 *       { type: Deployment, verbs: ["create", "patch"] },
 *     ])
 */
export function rulesOf(
  controllers: readonly ControllerDefinition[],
  writes: readonly WriteRight[] = [],
): readonly PolicyRule[] {
  const verbs = new Map<string, { readonly group: string; readonly resource: string; readonly verbs: Set<string> }>();
  const grant = ({ group, plural }: ResourceType, granted: readonly string[], subresource?: string): void => {
    const resource = subresource === undefined ? plural : `${plural}/${subresource}`;
    const id = `${group}/${resource}`;
    const entry = verbs.get(id) ?? { group, resource, verbs: new Set() };
    for (const verb of granted) entry.verbs.add(verb);
    verbs.set(id, entry);
  };
  for (const controller of controllers) {
    const { owns, watches, reads } = controller;
    const read = [controller.for, ...owns, ...watches.map(({ type }) => type), ...reads.map(({ type }) => type)];
    for (const type of read) grant(type, ["get", "list", "watch"]);
    if (owns.length > 0) grant(controller.for, ["update"], "finalizers");
  }
  for (const { type, verbs: granted, subresource } of writes) grant(type, granted, subresource);
  const sorted = [...verbs].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, entry]) => entry);
  const rules = sorted.map((entry) => ({
    apiGroups: [entry.group],
    resources: [entry.resource],
    verbs: allVerbs.filter((verb) => entry.verbs.has(verb)),
  }));
  return clusterRulesOf({ rules });
}

const allVerbs = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
