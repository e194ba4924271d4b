import { createHash } from "node:crypto";
import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";

const longest = 63;

/** Joins the parts with dashes. A name over 63 characters is cut and ends with a hash of the whole, so that it stays unique. */
export function childName(...parts: readonly string[]): string {
  const name = parts.join("-");
  return name.length <= longest ? name : withHash(name, parts);
}

/** The name to use where {@link childName}'s is taken by somebody else's object: it has the hash whatever its length. */
export function unambiguousChildName(...parts: readonly string[]): string {
  return withHash(parts.join("-"), parts);
}

function withHash(name: string, parts: readonly string[]): string {
  const hash = createHash("sha256").update(parts.join("/")).digest("hex").slice(0, 10);
  return `${name.slice(0, longest - hash.length - 1).replace(/-+$/, "")}-${hash}`;
}

/** Where a child's name stands: free, one's own object, an object of an owner that is gone, or somebody else's. */
export type NameClaim = "free" | "own" | "predecessor" | "foreign";

/**
 * Who has the name of a child. `predecessor`: a child of an earlier owner of the same name, which the garbage collector is
 * about to remove; wait for it.
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
