import { createPrivateKey, X509Certificate } from "node:crypto";
import { issueCertificateForKey, type KeyPair } from "@keelson/api-machinery/certificates";
import { certificateLifeMs } from "../certificate-life.ts";
import { publicKeyText } from "../one-time-token.ts";
import type { SigningKey } from "../signed-message.ts";
import { type AuthorityState, brokerAuthority, signingKeyLifeMs, trustedAuthorities } from "./authority-state.ts";
import { pinOf, type SignedTrustBundle, signTrustBundle } from "./trust-bundle.ts";

/** A certificate authority that robots trust. */
export interface TrustedAuthority extends KeyPair {
  readonly x509: X509Certificate;
  readonly pin: string;
}

/** Signs the certificates of robots, and the messages to them. Its keys are in the Secret `robot-identity` of the robots' namespace. */
export class RobotAuthority {
  readonly state: AuthorityState;
  /** The authorities that robots and brokers trust, the oldest first. Several while an authority is replaced. */
  readonly trusted: readonly TrustedAuthority[];
  /** SHA-256 of the public key of the authority that issues certificates. Join tokens contain it. */
  readonly pin: string;
  /** The keys whose signatures robots accept. */
  readonly trust: SignedTrustBundle;
  /** The key that signs messages. */
  readonly signingKey: SigningKey;

  constructor(state: AuthorityState) {
    this.state = state;
    this.trusted = trustedAuthorities(state).map(trustedAuthority);
    this.pin = trustedAuthority(state.authority).pin;
    const keys = state.keys.map(({ id, key }) => ({ id, key: createPrivateKey(key) }));
    const bundle = {
      version: state.version,
      keys: keys.map(({ id, key }) => ({ id, publicKey: publicKeyText(key) })),
      authorities: this.trusted.map(({ certificate }) => certificate),
      issuer: this.pin,
    };
    this.trust = signTrustBundle(bundle, this.trusted);
    // An authority always has a key; see `currentAuthorityState`.
    this.signingKey = keys.at(-1) ?? { id: "none", key: createPrivateKey(state.authority.key) };
  }

  /** The authority that issues certificates of robots: certificate and private key. */
  get authority(): KeyPair {
    return this.state.authority;
  }

  /** The authority that signs the certificates of brokers. */
  get brokerAuthority(): KeyPair {
    return brokerAuthority(this.state);
  }

  /** The certificates (PEM) of all trusted authorities. */
  get bundle(): string {
    return this.trusted.map(({ certificate }) => certificate).join("");
  }

  /** The certificate of the embedded broker. */
  get server(): KeyPair {
    return this.state.server;
  }

  /** The client certificate of the bridge. */
  get bridge(): KeyPair {
    return this.state.bridge;
  }

  /** Time at which the key that signs messages has to be replaced. */
  get rotateAt(): number {
    return (this.state.keys.at(-1)?.createdAt ?? 0) + signingKeyLifeMs;
  }

  /**
   * The authority that issues certificates of a robot that trusts authorities with these pins. A robot that names none has an agent that
   * cannot change authorities, so it gets the oldest one. Undefined if it trusts none of them.
   */
  issuerFor(pins: readonly string[] | undefined): TrustedAuthority | undefined {
    if (pins === undefined) return this.trusted[0];
    const issuing = this.trusted.filter(({ certificate }) => certificate !== this.state.next?.certificate);
    return issuing.findLast(({ pin }) => pins.includes(pin));
  }
}

/** Issues a certificate (PEM) for a robot's public key (SubjectPublicKeyInfo, DER, base64). */
export async function certifyRobot(
  issuer: KeyPair,
  { robotId, publicKey, now }: { readonly robotId: string; readonly publicKey: string; readonly now: number },
): Promise<string> {
  // Robots without a battery-backed clock start in 1970.
  const validity = { notBefore: new Date(0), notAfter: new Date(now + certificateLifeMs) };
  const request = { commonName: robotId, usage: "client", ...validity } as const;
  return await issueCertificateForKey(issuer, request, Uint8Array.from(Buffer.from(publicKey, "base64")));
}

function trustedAuthority(pair: KeyPair): TrustedAuthority {
  const x509 = new X509Certificate(pair.certificate);
  return { ...pair, x509, pin: pinOf(x509) };
}
