import type { SandboxStatus } from "../protocol/protocol.ts";

/** What the API says of the Sandbox that an agent's sandbox claims to be. `unknown`: it could not be asked. */
export type Claim =
  | { readonly kind: "absent" }
  | { readonly kind: "present"; readonly uid: string; readonly sandboxIds: readonly string[] }
  | { readonly kind: "unknown" };

/** What a verdict is made from. */
export interface JanitorObservation {
  readonly status: SandboxStatus;
  readonly claim: Claim;
  /** Whether the fast path has it in hand: the API may not know of it yet. */
  readonly isInHand: boolean;
  readonly now: number;
  /** How long a young one is left alone. */
  readonly protectionMs: number;
}

/**
 * Whether a sandbox on an agent belongs to nobody: why, or undefined where it is to be left alone. Fails closed: where anything is
 * not known for sure, it stays.
 */
export function orphanReason({ status, claim, isInHand, now, protectionMs }: JanitorObservation): string | undefined {
  if (isInHand || claim.kind === "unknown" || status.phase === "terminating") return undefined;
  if (status.claimName === "" || status.namespace === "") return undefined;
  if (now - status.createdAt * 1000 < protectionMs) return undefined;
  if (claim.kind === "absent") return `there is no Sandbox ${status.namespace}/${status.claimName}`;
  if (claim.sandboxIds.includes(status.sandboxId)) return undefined;
  if (status.claimUid !== "" && status.claimUid !== claim.uid) {
    return `the Sandbox ${status.namespace}/${status.claimName} is another one than it was made for`;
  }
  return `the Sandbox ${status.namespace}/${status.claimName} is another instance by now`;
}
