import { createHash } from "node:crypto";

/** Names of what a RhinoJob has made. */
export interface ChildNames {
  readonly secret: string;
  /** The NetworkPolicy. */
  readonly policy: string;
  readonly launcher: string;
  readonly workers: string;
}

/** What is left of a label's 63 characters beside `-UID5-launcher` and the `-INDEX-RANDOM` of Pods. */
const longestBase = 38;

/**
 * The names follow from name and uid, so that making them twice makes them once, and a job of the same name that comes after
 * is not mistaken for this one. They fit where Pods' host names have to fit, however long the job's name is.
 */
export function childNames(name: string, uid: string): ChildNames {
  const plain = name.replaceAll(".", "-");
  const base =
    plain.length <= longestBase && plain === name
      ? plain
      : `${plain.slice(0, longestBase - 7).replace(/-+$/, "")}-${hash(name)}`;
  const prefix = `${base}-${uid.slice(0, 5)}`;
  return { secret: `${prefix}-token`, policy: `${prefix}-peers`, launcher: `${prefix}-launcher`, workers: `${prefix}-workers` };
}

/** The job's name as the value of a label. */
export function labelValue(name: string): string {
  return name.length <= 63 ? name : `${name.slice(0, 56).replace(/[-.]+$/, "")}-${hash(name)}`;
}

function hash(name: string): string {
  return createHash("sha256").update(name).digest("hex").slice(0, 6);
}
