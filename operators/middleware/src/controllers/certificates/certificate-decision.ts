/** A rotation that a user has requested. */
export interface RotationRequest {
  readonly id: string;
  /** Replaces the authority too. */
  readonly authority: boolean;
}

/** What is known about the certificates of an App. */
export interface CertificateFacts {
  readonly authorityExpiresMs: number;
  /** When the first of the issued certificates expires. */
  readonly leavesExpireMs: number;
  /** Whether the authority has signed them, for all names and addresses of the App. */
  readonly areLeavesValid: boolean;
  /** Whether the key of the authority was lost, so that it signs nothing more. The next authority exists. */
  readonly isKeyLost: boolean;
  readonly hasNextAuthority: boolean;
  readonly hasPreviousAuthority: boolean;
  /** When the next authority was created or took over. */
  readonly changedMs: number;
  /** Id of the last rotation on request. */
  readonly rotated: string | undefined;
}

/** Inputs of {@link decideCertificates}. */
export interface CertificateObservation {
  /** Undefined if there are no certificates, or none that can be used. */
  readonly facts: CertificateFacts | undefined;
  /** Without facts: whether published certificates can still be used and verified. */
  readonly isRecoverable: boolean;
  readonly request: RotationRequest | undefined;
  /** Whether all Pods report the recorded certificates and authorities. */
  readonly isApplied: boolean;
  readonly graceMs: number;
  readonly now: number;
}

/** The next step. */
export type CertificateStep =
  /** Creates an authority and certificates. */
  | { readonly kind: "create" }
  /** Records the published certificates, whose authority can sign nothing more, and creates the next authority. */
  | { readonly kind: "recover" }
  /** Issues certificates. */
  | { readonly kind: "issue" }
  /** Creates the next authority, which is trusted and signs nothing yet. */
  | { readonly kind: "stage" }
  /** The next authority signs. The one before stays trusted. */
  | { readonly kind: "promote" }
  /** Ends the trust in the previous authority. */
  | { readonly kind: "drop" }
  /** Nothing to do until a Pod, a Service or the App changes, or this time. */
  | { readonly kind: "wait"; readonly untilMs: number };

const dayMs = 24 * 60 * 60 * 1000;
/** Lifetime of authorities. */
export const authorityLifeMs = 10 * 365 * dayMs;
/** Lifetime of the certificates of agents and programs. */
export const leafLifeMs = 90 * dayMs;
/** Certificates are replaced this long before they expire. */
const leafRenewMs = 30 * dayMs;
/** The same, if the grace period of clients must be cut short. */
const leafUrgentMs = dayMs;
/** Longer than the life of what the authority has signed. */
const authorityRenewMs = leafLifeMs + 30 * dayMs;

/**
 * Decides about the certificates of an App. Pure. An authority signs only when all Pods and, after the grace period, all clients trust it,
 * and is trusted until nothing that it has signed is in use, so that a connection can be verified at any time:
 *
 *     trusted    first | first, next | next, first | next
 *     signs      first | first       | next        | next
 *                    stage       promote         drop
 */
export function decideCertificates(observed: CertificateObservation): CertificateStep {
  const { facts, request, isApplied, isRecoverable, graceMs, now } = observed;
  if (facts === undefined && isRecoverable) return { kind: "recover" };
  if (facts === undefined || facts.authorityExpiresMs <= now) return { kind: "create" };
  if (facts.isKeyLost) return replaceLost(facts, observed);
  const { authorityExpiresMs, leavesExpireMs, areLeavesValid, hasNextAuthority, hasPreviousAuthority, changedMs } = facts;
  if (!areLeavesValid || now >= leavesExpireMs - leafRenewMs) return { kind: "issue" };
  const isReplacing = hasNextAuthority || hasPreviousAuthority;
  const isRequested = request !== undefined && request.id !== facts.rotated;
  if (isRequested && !request.authority) return { kind: "issue" };
  if (!isReplacing && (isRequested || now >= authorityExpiresMs - authorityRenewMs)) return { kind: "stage" };
  const renewAtMs = Math.min(leavesExpireMs - leafRenewMs, isReplacing ? Infinity : authorityExpiresMs - authorityRenewMs);
  if (!isReplacing) return { kind: "wait", untilMs: renewAtMs };
  const readyMs = changedMs + graceMs;
  if (now < readyMs) return { kind: "wait", untilMs: Math.min(readyMs, renewAtMs) };
  // A Pod that reports later triggers the next decision.
  if (!isApplied) return { kind: "wait", untilMs: renewAtMs };
  return { kind: hasNextAuthority ? "promote" : "drop" };
}

/** The next authority takes over as usual, but at the latest before a certificate expires that cannot be issued again. */
function replaceLost(
  { changedMs, leavesExpireMs }: CertificateFacts,
  { isApplied, graceMs, now }: CertificateObservation,
): CertificateStep {
  const [readyMs, latestMs] = [changedMs + graceMs, leavesExpireMs - leafUrgentMs];
  if (now >= latestMs || (now >= readyMs && isApplied)) return { kind: "promote" };
  return { kind: "wait", untilMs: now < readyMs ? Math.min(readyMs, latestMs) : latestMs };
}

/** Whether a step does what was requested. New authorities and certificates fulfil every request. */
export function fulfils(step: Exclude<CertificateStep["kind"], "wait">, { authority }: RotationRequest): boolean {
  return step === "create" || step === "recover" || (step === "stage") === authority;
}
