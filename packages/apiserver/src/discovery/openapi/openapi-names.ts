import type { ServedResource } from "../../registry/served-resource.ts";

/** The path parameters of a collection, or of a named object in it. */
export function pathParameterNames(scope: ServedResource["scope"], isNamed: boolean): readonly string[] {
  return [...(isNamed ? ["name"] : []), ...(scope === "Namespaced" ? ["namespace"] : [])];
}

/** The group and version in an operation's ID, like `RbacAuthorizationV1`. */
export function prefixOf({ group, version }: Pick<ServedResource, "group" | "version">): string {
  return `${groupPrefix(group)}${pascal(version)}`;
}

/** The tag of a group version, from which generated clients name their classes: `rbacAuthorization_v1`. */
export function tagOf({ group, version }: Pick<ServedResource, "group" | "version">): string {
  return `${groupTag(group)}_${version}`;
}

/** The tag of a group: `rbacAuthorization`. */
export function groupTag(group: string): string {
  const name = groupPrefix(group);
  return `${name.charAt(0).toLowerCase()}${name.slice(1)}`;
}

/** The group in an operation's ID, like `RbacAuthorization`. */
export function groupPrefix(group: string): string {
  return pascal(shortGroup(group));
}

/** The part of an operation's ID that says whether its resource is namespaced. */
export function scopeOf({ scope }: ServedResource): string {
  return scope === "Namespaced" ? "Namespaced" : "";
}

/** Operations of the groups of Kubernetes are named without its domain. */
function shortGroup(group: string): string {
  return group === "" ? "core" : group.replace(/\.k8s\.io$/, "");
}

/** Converts `rbac.authorization` to `RbacAuthorization`. */
export function pascal(text: string): string {
  return text.replaceAll(/(?:^|[.\-_])([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}
