import { certificateDefect, type KeyPair } from "@keelson/api-machinery/certificates";

/** The certificates of a webhook server. Clients trust all its authorities. */
export interface WebhookCertificates {
  /** Signs the server's certificate. */
  readonly authority: KeyPair;
  /** Trusted, and signs from the next step on. Present while the authority is being replaced. */
  readonly nextAuthority?: KeyPair;
  /** PEM of the replaced authority, which replicas may still use. */
  readonly previousAuthority?: string;
  readonly server: KeyPair;
}

/** The next step of certificate management. */
export type CertificatePlan =
  /** Nothing until `renewAtMs`. */
  | { readonly kind: "keep"; readonly renewAtMs: number }
  /** There are none that can be used. */
  | { readonly kind: "create" }
  /** The server's certificate expires or is for other hosts. */
  | { readonly kind: "renew" }
  /** The authority expires: clients must trust the next one before it signs. */
  | { readonly kind: "stage" }
  /** Clients trust the next authority: it signs. */
  | { readonly kind: "promote" };

const dayMs = 24 * 60 * 60 * 1000;
/** Lifetime of authorities. */
export const authorityLifeMs = 10 * 365 * dayMs;
/** Lifetime of server certificates. */
export const serverLifeMs = 90 * dayMs;
/** A certificate is renewed this long before it expires. */
const serverRenewMs = 30 * dayMs;
const authorityRenewMs = serverLifeMs + 30 * dayMs;
/** How long every replica has to publish the next authority before it signs. */
const stageMs = dayMs;

/** What the certificates say about themselves. */
export interface CertificateFacts {
  readonly authorityExpiresMs: number;
  readonly serverExpiresMs: number;
  /** When the next authority was created; undefined if there is none. */
  readonly stagedMs: number | undefined;
  /** Whether the server's certificate is signed by the authority and valid for all hosts. */
  readonly isServerValid: boolean;
}

/**
 * Decides the next step. `facts` is undefined if there are no usable certificates.
 *
 *     authority    |------------------------------|
 *     next                              |---------------------- ...
 *                                       stage   promote (a day later)
 */
export function planCertificates(facts: CertificateFacts | undefined, nowMs: number): CertificatePlan {
  if (facts === undefined || facts.authorityExpiresMs <= nowMs) return { kind: "create" };
  const { authorityExpiresMs, serverExpiresMs, stagedMs, isServerValid } = facts;
  if (stagedMs !== undefined && nowMs >= stagedMs + stageMs) return { kind: "promote" };
  if (!isServerValid || nowMs >= serverExpiresMs - serverRenewMs) return { kind: "renew" };
  if (stagedMs === undefined && nowMs >= authorityExpiresMs - authorityRenewMs) return { kind: "stage" };
  const authorityAtMs = stagedMs === undefined ? authorityExpiresMs - authorityRenewMs : stagedMs + stageMs;
  return { kind: "keep", renewAtMs: Math.min(serverExpiresMs - serverRenewMs, authorityAtMs) };
}

/** Why a server certificate cannot be used at this time, or undefined. */
export function serverDefect({ server, authority }: WebhookCertificates, nowMs: number): string | undefined {
  return certificateDefect(server, authority, nowMs, nowMs);
}
