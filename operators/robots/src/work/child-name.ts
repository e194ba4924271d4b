import { createHash } from "node:crypto";
import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";

const maxNameLength = 63;

/** Joins the parts with dashes. A name over 63 characters is cut and ends with a hash of the parts, so that it stays unique. */
export function childName(...parts: readonly string[]): string {
  const name = parts.join("-");
  return name.length <= maxNameLength ? name : withHash(name, parts);
}

/** The fallback for {@link childName} if another owner's object has that name. It always ends with the hash. */
export function unambiguousChildName(...parts: readonly string[]): string {
  return withHash(parts.join("-"), parts);
}

/** A name as a label value, shortened like the name of a child if it exceeds 63 characters. */
export function labelValue(name: string): string {
  return childName(name);
}

function withHash(name: string, parts: readonly string[]): string {
  const hash = createHash("sha256").update(parts.join("/")).digest("hex").slice(0, 10);
  return `${name.slice(0, maxNameLength - hash.length - 1).replace(/-+$/, "")}-${hash}`;
}

/** Who holds a child's name: no one, the owner, a deleted owner of the same name, or another owner. */
export type NameClaim = "free" | "own" | "predecessor" | "foreign";

/**
 * Who holds the name of a child. `predecessor`: the child of a deleted owner of the same name. The garbage collector is about to
 * delete it; wait for that.
 */
export function claimOf(
  existing: DeepReadonly<KubernetesObject> | undefined,
  owner: { readonly kind: string; readonly name: string; readonly uid: string },
): NameClaim {
  if (existing === undefined) return "free";
  const reference = existing.metadata.ownerReferences?.find((each) => each.controller);
  if (reference?.uid === owner.uid) return "own";
  return reference?.kind === owner.kind && reference.name === owner.name ? "predecessor" : "foreign";
}
