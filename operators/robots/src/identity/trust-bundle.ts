import { createHash, type KeyObject, sign, verify, type X509Certificate } from "node:crypto";
import { isJsonObject } from "@keelson/api-machinery";
import { readPublicKey } from "./one-time-token.ts";

/** A key whose signatures robots accept. */
export interface TrustedKey {
  readonly id: string;
  /** SubjectPublicKeyInfo (DER, base64) of an Ed25519 key. */
  readonly publicKey: string;
}

/** The keys that sign messages to robots. A robot accepts only bundles with a higher version than its own. */
export interface TrustBundle {
  readonly version: number;
  readonly keys: readonly TrustedKey[];
}

/** A {@link TrustBundle} as it is sent: its JSON and the signature (base64) of the robots' certificate authority. */
export interface SignedTrustBundle {
  readonly text: string;
  readonly signature: string;
}

const signedBytes = (text: string): Buffer => Buffer.from(`keelson robot trust bundle\n${text}`);

/** Signs a bundle with the private key (PEM) of the certificate authority. */
export function signTrustBundle(bundle: TrustBundle, authorityKey: string): SignedTrustBundle {
  const text = JSON.stringify(bundle);
  return { text, signature: sign("sha256", signedBytes(text), authorityKey).toString("base64") };
}

/** Parses a bundle and checks the authority's signature. Undefined if it is not valid. */
export function openTrustBundle(value: unknown, authority: X509Certificate): TrustBundle | undefined {
  if (!isJsonObject(value) || typeof value.text !== "string" || typeof value.signature !== "string") return undefined;
  if (!verify("sha256", signedBytes(value.text), authority.publicKey, Buffer.from(value.signature, "base64"))) return undefined;
  const bundle: unknown = JSON.parse(value.text);
  if (!isJsonObject(bundle) || typeof bundle.version !== "number" || !Array.isArray(bundle.keys)) return undefined;
  const keys = bundle.keys.flatMap((key: unknown) =>
    isJsonObject(key) && typeof key.id === "string" && typeof key.publicKey === "string"
      ? [{ id: key.id, publicKey: key.publicKey }]
      : [],
  );
  return { version: bundle.version, keys };
}

/** The pin of a certificate authority: SHA-256 (base64url) of its public key. */
export function pinOf(authority: X509Certificate): string {
  const key = authority.publicKey.export({ type: "spki", format: "der" });
  return createHash("sha256").update(key).digest("base64url");
}

/** The public keys of a bundle by id. */
export function keysOf({ keys }: TrustBundle): ReadonlyMap<string, KeyObject> {
  return new Map(keys.map(({ id, publicKey }) => [id, readPublicKey(publicKey)]));
}
