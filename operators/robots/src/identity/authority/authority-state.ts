import { generateKeyPairSync, X509Certificate } from "node:crypto";
import { isJsonObject } from "@keelson/api-machinery";
import {
  certificateDefect,
  createCertificateAuthority,
  issueCertificate,
  type KeyPair,
} from "@keelson/api-machinery/certificates";
import { identitySecret } from "../../api/names.ts";
import { RobotsError } from "../../robots-error.ts";

const dayMs = 86_400_000;

/** Age at which the key that signs messages is replaced. The previous one stays trusted until the next replacement. */
export const signingKeyLifeMs = 90 * dayMs;

/** Common name of the bridge's certificate. It is not a valid robot id. */
export const bridgeCommonName = "system:robots-bridge";

const authorityLifeMs = 20 * 365 * dayMs;
/** Remaining life of an authority when its replacement begins. Robots that are away can return until it has been retired. */
const replaceBeforeMs = 2 * 365 * dayMs;
/** Remaining life of a replaced authority when it is retired although robots need it. They could not use it much longer. */
const retireBeforeMs = 30 * dayMs;
const serverLifeMs = 5 * 365 * dayMs;
const renewServerMs = 365 * dayMs;

/** Robots without a battery-backed clock start in 1970 and must still accept the broker's certificate. */
const notBefore = new Date(0);

/** Key that signs messages, as it is stored. */
interface StoredKey {
  readonly id: string;
  /** PKCS #8 PEM. */
  readonly key: string;
  readonly createdAt: number;
}

/**
 * The robots' certificate authority as it is stored. Each step of a rotation is one write of the Secret:
 *
 *     trusted by robots and brokers   first | first, next | first, next | first, next | next
 *     issues certificates of robots   first | first       | next        | next        | next
 *     has signed the broker's         first | first       | first       | next        | next
 *                                         stage       promote       retire        drop
 */
export interface AuthorityState {
  /** Issues certificates of robots. */
  readonly authority: KeyPair;
  /** Trusted, and issues nothing yet. */
  readonly next?: KeyPair;
  /** Replaced by `authority`, and still trusted. */
  readonly previous?: KeyPair;
  /** Whether brokers no longer use the certificate that `previous` has signed. */
  readonly isRetiring?: boolean;
  /** Certificate of the embedded broker. */
  readonly server: KeyPair;
  /** Client certificate of the bridge at an external broker. */
  readonly bridge: KeyPair;
  /** Newest last, at most two. */
  readonly keys: readonly StoredKey[];
  /** Increases with every replacement of a key, and with every step of a rotation. */
  readonly version: number;
}

/** The authorities that robots and brokers trust, the oldest first. */
export function trustedAuthorities({ previous, authority, next }: AuthorityState): readonly KeyPair[] {
  return [previous, authority, next].filter((each) => each !== undefined);
}

/** The authority that signs the certificates of brokers: one that robots trusted before the rotation, until it retires. */
export function brokerAuthority({ previous, authority, isRetiring }: AuthorityState): KeyPair {
  return previous === undefined || isRetiring === true ? authority : previous;
}

/** A step of a rotation for which the broker must be ready. Undefined: none. */
export function brokerStep({ next, previous, isRetiring }: AuthorityState): "promote" | "drop" | undefined {
  if (next !== undefined) return "promote";
  return previous !== undefined && isRetiring === true ? "drop" : undefined;
}

/** What the operator does by itself: the steps of a rotation that wait for the broker, and the whole rotation of an authority that expires. */
export type RotationStep =
  | { readonly kind: "stage" }
  | { readonly kind: "promote" | "drop"; readonly broker: "acceptsNewest" | "presentsCurrent" }
  /** Unless `isForced`, it waits until nothing needs the previous authority. */
  | { readonly kind: "retire"; readonly isForced: boolean };

/** The step that the operator takes by itself. Undefined: none, or it waits for a user. */
export function nextRotationStep(state: AuthorityState, now: number): RotationStep | undefined {
  const step = brokerStep(state);
  if (step !== undefined) return { kind: step, broker: step === "promote" ? "acceptsNewest" : "presentsCurrent" };
  const remainingMs = Date.parse(authorityExpiry(state.previous ?? state.authority)) - now;
  if (remainingMs > replaceBeforeMs) return undefined;
  return state.previous === undefined ? { kind: "stage" } : { kind: "retire", isForced: remainingMs <= retireBeforeMs };
}

/** The state after a step. */
export async function afterStep(state: AuthorityState, kind: RotationStep["kind"], now: number): Promise<AuthorityState> {
  switch (kind) {
    case "stage":
      return await stageAuthority(state, now);
    case "promote":
      return promoteAuthority(state);
    case "retire":
      return await retireAuthority(state, now);
    case "drop":
      return dropAuthority(state);
  }
}

/** Adds an authority that is trusted and issues nothing yet, and a new key that signs messages. */
export async function stageAuthority(state: AuthorityState, now: number): Promise<AuthorityState> {
  const version = state.version + 1;
  // The space keeps it apart from the ids of robots, and the number from other authorities: revocation lists are found by this name.
  const next = await createCertificateAuthority(`keelson-robots ${version}`, notBefore, new Date(now + authorityLifeMs));
  return { ...state, next, keys: [...state.keys.slice(-1), createStoredKey(version, now)], version };
}

/** Makes the next authority the issuer of robots' certificates. The previous one stays trusted. Returns the state unchanged if none is staged. */
export function promoteAuthority({ next, ...state }: AuthorityState): AuthorityState {
  if (next === undefined) return state;
  return { ...state, previous: state.authority, authority: next, version: state.version + 1 };
}

/** Makes the new authority sign the certificates of brokers too. */
export async function retireAuthority(state: AuthorityState, now: number): Promise<AuthorityState> {
  return { ...state, isRetiring: true, version: state.version + 1, ...(await issuePair(state.authority, now)) };
}

/** Ends the trust in the previous authority, and in keys that it has signed. */
export function dropAuthority({ authority, server, bridge, keys, version }: AuthorityState): AuthorityState {
  return { authority, server, bridge, keys: keys.slice(-1), version: version + 1 };
}

/** **Errors**: {@link RobotsError} `InvalidIdentity`, without a cause: errors of the parser quote private keys. */
export function parseAuthorityState(data: Readonly<Record<string, string>> | undefined): AuthorityState | undefined {
  const text = data?.["authority.json"];
  if (text === undefined) return undefined;
  const state = parseJson(Buffer.from(text, "base64").toString("utf8"));
  if (!isJsonObject(state) || !isJsonObject(state.authority) || !Array.isArray(state.keys)) {
    throw new RobotsError(
      "InvalidIdentity",
      `Secret ${identitySecret}: data[authority.json] is damaged: restore it from a backup`,
    );
  }
  return state as unknown as AuthorityState;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Creates what is missing and renews what is due. Returns the same object if nothing has to change. */
export async function currentAuthorityState(stored: AuthorityState | undefined, now: number): Promise<AuthorityState> {
  if (stored === undefined) {
    const authority = await createCertificateAuthority("keelson-robots", notBefore, new Date(now + authorityLifeMs));
    return { authority, ...(await issuePair(authority, now)), keys: [createStoredKey(1, now)], version: 1 };
  }
  const signer = brokerAuthority(stored);
  const isCurrent = [stored.server, stored.bridge].every(
    (pair) => certificateDefect(pair, signer, now, now + renewServerMs) === undefined,
  );
  const renewed = isCurrent ? stored : { ...stored, ...(await issuePair(signer, now)) };
  if (now < (stored.keys.at(-1)?.createdAt ?? 0) + signingKeyLifeMs) return renewed;
  const version = stored.version + 1;
  return { ...renewed, keys: [...stored.keys.slice(-1), createStoredKey(version, now)], version };
}

/** When an authority expires. */
export const authorityExpiry = ({ certificate }: KeyPair): string =>
  new Date(new X509Certificate(certificate).validTo).toISOString();

async function issuePair(authority: KeyPair, now: number): Promise<Pick<AuthorityState, "server" | "bridge">> {
  const validity = { notBefore, notAfter: new Date(now + serverLifeMs) };
  const hosts = ["localhost", "127.0.0.1", "::1"];
  const [server, bridge] = await Promise.all([
    issueCertificate(authority, { commonName: "keelson-robots-broker", usage: "server", hosts, ...validity }),
    issueCertificate(authority, { commonName: bridgeCommonName, usage: "client", ...validity }),
  ]);
  return { server, bridge };
}

function createStoredKey(version: number, now: number): StoredKey {
  const { privateKey } = generateKeyPairSync("ed25519");
  return { id: `k${version}`, key: privateKey.export({ type: "pkcs8", format: "pem" }).toString(), createdAt: now };
}
