import { createHash, type KeyObject, sign, verify, X509Certificate } from "node:crypto";
import { isJsonObject } from "@keelson/api-machinery";
import type { KeyPair } from "@keelson/api-machinery/certificates";
import { readPublicKey } from "../one-time-token.ts";

/** A key whose signatures robots accept. */
export interface TrustedKey {
  readonly id: string;
  /** SubjectPublicKeyInfo (DER, base64) of an Ed25519 key. */
  readonly publicKey: string;
}

/** What robots trust: the keys that sign messages to them, and certificate authorities. A robot accepts only bundles with a higher version than its own. */
export interface TrustBundle {
  readonly version: number;
  readonly keys: readonly TrustedKey[];
  /** Certificates (PEM) of the authorities. Absent from servers that cannot replace theirs: the one that has signed the bundle. */
  readonly authorities?: readonly string[];
  /** Pin of the authority that issues certificates. A robot with a certificate of another one renews it. */
  readonly issuer?: string;
}

/** A {@link TrustBundle} as it is sent: its JSON and the signatures (base64) of certificate authorities. */
export interface SignedTrustBundle {
  readonly text: string;
  /** Of the oldest authority that is trusted. */
  readonly signature: string;
  /** Of the other ones. */
  readonly signatures?: readonly string[];
}

const signedBytes = (text: string): Buffer => Buffer.from(`keelson robot trust bundle\n${text}`);

/** Signs a bundle with the private keys of certificate authorities, the oldest first. */
export function signTrustBundle(bundle: TrustBundle, authorities: readonly KeyPair[]): SignedTrustBundle {
  const text = JSON.stringify(bundle);
  const [signature = "", ...signatures] = authorities.map(({ key }) =>
    sign("sha256", signedBytes(text), key).toString("base64"),
  );
  return { text, signature, ...(signatures.length === 0 ? {} : { signatures }) };
}

const maxSignatures = 4;

/** Parses a bundle and checks that one of the authorities has signed it. Undefined if it is not valid. */
export function openTrustBundle(value: unknown, authorities: readonly X509Certificate[]): TrustBundle | undefined {
  if (!isJsonObject(value) || typeof value.text !== "string" || typeof value.signature !== "string") return undefined;
  const { text, signatures = [] } = value;
  if (!Array.isArray(signatures)) return undefined;
  const candidates = [value.signature, ...signatures.slice(0, maxSignatures)]
    .filter((each) => typeof each === "string")
    .map((each) => Buffer.from(each, "base64"));
  const isSigned = authorities.some(({ publicKey }) =>
    candidates.some((signature) => verify("sha256", signedBytes(text), publicKey, signature)),
  );
  return isSigned ? readBundle(JSON.parse(text)) : undefined;
}

function readBundle(bundle: unknown): TrustBundle | undefined {
  if (!isJsonObject(bundle) || typeof bundle.version !== "number" || !Array.isArray(bundle.keys)) return undefined;
  const keys = bundle.keys.flatMap((key: unknown) =>
    isJsonObject(key) && typeof key.id === "string" && typeof key.publicKey === "string"
      ? [{ id: key.id, publicKey: key.publicKey }]
      : [],
  );
  const { version, issuer, authorities } = bundle;
  const pems = Array.isArray(authorities) ? authorities.filter((each) => typeof each === "string" && isAuthority(each)) : [];
  return {
    ...{ version, keys },
    ...(pems.length === 0 ? {} : { authorities: pems as readonly string[] }),
    ...(typeof issuer === "string" ? { issuer } : {}),
  };
}

function isAuthority(pem: string): boolean {
  try {
    return new X509Certificate(pem).ca;
  } catch {
    return false;
  }
}

/** The pin of a certificate authority: SHA-256 (base64url) of its public key. */
export function pinOf(authority: X509Certificate): string {
  return spkiDigest(authority).toString("base64url");
}

/** A short name of a certificate authority, for users and for features of agents: 16 hexadecimal digits of its pin. */
export function authorityIdOf(pin: string): string {
  return Buffer.from(pin, "base64url").toString("hex").slice(0, 16);
}

function spkiDigest(certificate: X509Certificate): Buffer {
  return createHash("sha256")
    .update(certificate.publicKey.export({ type: "spki", format: "der" }))
    .digest();
}

/** The public keys of a bundle by id. */
export function keysOf({ keys }: TrustBundle): ReadonlyMap<string, KeyObject> {
  return new Map(keys.map(({ id, publicKey }) => [id, readPublicKey(publicKey)]));
}
