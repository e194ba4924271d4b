import { createHash } from "node:crypto";

/** Names of a RhinoJob's children. */
export interface ChildNames {
  /** Number of the attempt that they belong to. */
  readonly attempt: number;
  /** Name of the job with a part of its uid, the same for all attempts. */
  readonly job: string;
  readonly secret: string;
  /** The NetworkPolicy. */
  readonly policy: string;
  readonly launcher: string;
  readonly workers: string;
  /** The ConfigMap and the headless Service of the hosts. */
  readonly hosts: string;
  /** The PodGroup, with a scheduler that uses one. */
  readonly podGroup: string;
}

/** A label's 63 characters less `-UID5-launcher` and the `-INDEX-RANDOM` of Pods. */
const maxBaseLength = 38;

/**
 * The names follow from name, uid and attempt, so that creating the children is idempotent, and a later job of the same name or another
 * attempt has other ones.
 * They are short enough for the host names of Pods.
 */
export function childNames(name: string, uid: string, attempt = 1): ChildNames {
  const plain = name.replaceAll(".", "-");
  const base =
    plain.length <= maxBaseLength && plain === name
      ? plain
      : `${plain.slice(0, maxBaseLength - 7).replace(/-+$/, "")}-${hash(name)}`;
  const job = `${base}-${uid.slice(0, 5)}`;
  const prefix = `${job}${attempt === 1 ? "" : `-a${attempt}`}`;
  return {
    attempt,
    job,
    secret: `${prefix}-token`,
    policy: `${prefix}-peers`,
    launcher: `${prefix}-launcher`,
    workers: `${prefix}-workers`,
    hosts: `${prefix}-hosts`,
    podGroup: prefix,
  };
}

/** The job's name as a label value. */
export function labelValue(name: string): string {
  return name.length <= 63 ? name : `${name.slice(0, 56).replace(/[-.]+$/, "")}-${hash(name)}`;
}

function hash(name: string): string {
  return createHash("sha256").update(name).digest("hex").slice(0, 6);
}
