import type { Role } from "../group/observation.ts";

/** A Pod that may be the source of a backup. */
export interface SourceCandidate {
  readonly name: string;
  readonly ip: string;
  /** State that its agent reports; undefined if it does not respond. */
  readonly role: Role | undefined;
}

/** The source of a backup, or why there is none. */
export type SourceChoice =
  | {
      readonly pod: string;
      readonly ip: string;
      readonly role: "replica" | "primary";
      readonly reason: string;
      readonly lagBytes?: number;
    }
  | { readonly problem: string };

/**
 * Chooses the Pod whose data is backed up: the replica in sync with the least lag. The primary is used only if no replica is in sync, or
 * if all lack more than `maxLagBytes`; the reason says so.
 */
export function chooseSource(
  candidates: readonly SourceCandidate[],
  primary: string | undefined,
  maxLagBytes: number,
): SourceChoice {
  const leader = candidates.find(({ name, role }) => name === primary && role?.role === "primary");
  const replicas = candidates.filter(
    ({ name, role }) =>
      name !== primary && role?.role === "replica" && role.isInSync && (leader === undefined || role.primaryHost === leader.ip),
  );
  const [best] = [...replicas].sort((a, b) => (b.role?.offset ?? 0) - (a.role?.offset ?? 0));
  const lagBytes =
    leader === undefined || best === undefined ? undefined : Math.max((leader.role?.offset ?? 0) - (best.role?.offset ?? 0), 0);
  if (best !== undefined && (lagBytes ?? 0) <= maxLagBytes) {
    const { name: pod, ip } = best;
    if (lagBytes === undefined) return { pod, ip, role: "replica", reason: "replica in sync; the primary does not respond" };
    return { pod, ip, role: "replica", reason: "replica in sync", lagBytes };
  }
  if (leader === undefined) return { problem: "no Pod of the App is in sync and responds" };
  const { name: pod, ip } = leader;
  const reason =
    best !== undefined
      ? `every replica lags more than ${maxLagBytes} bytes behind; the closest one lags ${lagBytes}`
      : candidates.length > 1
        ? "no replica is in sync"
        : "the group has no replica";
  return { pod, ip, role: "primary", reason };
}
