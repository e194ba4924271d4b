import { createPrivateKey, generateKeyPairSync, X509Certificate } from "node:crypto";
import { ignoreNotFound, isJsonObject } from "@keelson/api-machinery";
import {
  certificateDefect,
  createCertificateAuthority,
  issueCertificate,
  issueCertificateForKey,
  type KeyPair,
} from "@keelson/api-machinery/certificates";
import type { Client } from "@keelson/client";
import { identitySecret } from "../api/names.ts";
import { Secret } from "../api/secret.ts";
import { certificateLifeMs } from "./certificate-life.ts";
import { publicKeyText } from "./one-time-token.ts";
import { RobotsError } from "../robots-error.ts";
import type { SigningKey } from "./signed-message.ts";
import { pinOf, type SignedTrustBundle, signTrustBundle } from "./trust-bundle.ts";

const dayMs = 86_400_000;

/** Age at which the key that signs messages is replaced. The previous one stays trusted until the next replacement. */
const signingKeyLifeMs = 90 * dayMs;

/** Common name of the bridge's certificate. It is not a valid robot id. */
export const bridgeCommonName = "system:robots-bridge";

const authorityLifeMs = 20 * 365 * dayMs;
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

interface AuthorityState {
  readonly authority: KeyPair;
  /** Certificate of the embedded broker. */
  readonly server: KeyPair;
  /** Client certificate of the bridge at an external broker. */
  readonly bridge: KeyPair;
  /** Newest last, at most two. */
  readonly keys: readonly StoredKey[];
  readonly version: number;
}

/**
 * Signs the certificates of robots, and the messages to them. Its keys are in the Secret `robot-identity` of the robots' namespace.
 */
export class RobotAuthority {
  readonly #state: AuthorityState;
  /** The certificate that robots trust. */
  readonly certificate: X509Certificate;
  /** SHA-256 of the authority's public key, which join tokens contain. */
  readonly pin: string;
  /** The keys whose signatures robots accept. */
  readonly trust: SignedTrustBundle;
  /** The key that signs messages. */
  readonly signingKey: SigningKey;

  constructor(state: AuthorityState) {
    this.#state = state;
    this.certificate = new X509Certificate(state.authority.certificate);
    this.pin = pinOf(this.certificate);
    const keys = state.keys.map(({ id, key }) => ({ id, key: createPrivateKey(key) }));
    const bundle = { version: state.version, keys: keys.map(({ id, key }) => ({ id, publicKey: publicKeyText(key) })) };
    this.trust = signTrustBundle(bundle, state.authority.key);
    // An authority always has a key; see `nextState`.
    this.signingKey = keys.at(-1) ?? { id: "none", key: createPrivateKey(state.authority.key) };
  }

  /** The authority itself: certificate and private key. */
  get authority(): KeyPair {
    return this.#state.authority;
  }

  /** The certificate of the embedded broker. */
  get server(): KeyPair {
    return this.#state.server;
  }

  /** The client certificate of the bridge. */
  get bridge(): KeyPair {
    return this.#state.bridge;
  }

  /** Time at which the key that signs messages has to be replaced. */
  get rotateAt(): number {
    return (this.#state.keys.at(-1)?.createdAt ?? 0) + signingKeyLifeMs;
  }

  /** Issues a certificate (PEM) for a robot's public key (SubjectPublicKeyInfo, DER, base64). */
  async certify(robotId: string, publicKey: string, now: number): Promise<string> {
    const request = { commonName: robotId, usage: "client", notBefore, notAfter: new Date(now + certificateLifeMs) } as const;
    return await issueCertificateForKey(this.#state.authority, request, Uint8Array.from(Buffer.from(publicKey, "base64")));
  }
}

/** Options of {@link ensureRobotAuthority}. */
export interface EnsureRobotAuthorityOptions {
  readonly client: Client;
  readonly namespace: string;
  readonly now: number;
  readonly fieldManager: string;
}

/**
 * Loads the authority from its Secret. Creates what is missing, renews the broker's certificate a year before it expires, and
 * replaces the key that signs messages when it is {@link signingKeyLifeMs} old.
 *
 * **Errors**: rejects if the Secret cannot be read or written, also because of a concurrent write, or is damaged.
 */
export async function ensureRobotAuthority(options: EnsureRobotAuthorityOptions): Promise<RobotAuthority> {
  const { client, namespace, now, fieldManager } = options;
  const secret = await ignoreNotFound(client.get(Secret, { namespace, name: identitySecret }));
  const stored = readState(secret?.data);
  const state = await nextState(stored, now);
  if (state !== stored) {
    const data = { "authority.json": Buffer.from(JSON.stringify(state)).toString("base64") };
    if (secret === undefined) {
      await client.create(Secret, { metadata: { name: identitySecret, namespace }, type: "Opaque", data }, { fieldManager });
    } else {
      const body = { metadata: { resourceVersion: secret.metadata.resourceVersion }, data };
      await client.patch(Secret, { namespace, name: identitySecret }, { type: "merge", body }, { fieldManager });
    }
  }
  return new RobotAuthority(state);
}

/** Loads the authority. Undefined if the operator has not created it yet. */
export async function readRobotAuthority(
  client: Client,
  namespace: string,
  signal?: AbortSignal,
): Promise<RobotAuthority | undefined> {
  const key = { namespace, name: identitySecret };
  const secret = await ignoreNotFound(client.get(Secret, key, signal === undefined ? {} : { signal }));
  const state = readState(secret?.data);
  return state === undefined ? undefined : new RobotAuthority(state);
}

/** **Errors**: {@link RobotsError} `InvalidIdentity`, without a cause: errors of the parser quote private keys. */
function readState(data: Readonly<Record<string, string>> | undefined): AuthorityState | undefined {
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

/** The state to store. Returns the same object if nothing has to change. */
async function nextState(stored: AuthorityState | undefined, now: number): Promise<AuthorityState> {
  if (stored === undefined) {
    const authority = await createCertificateAuthority("keelson-robots", notBefore, new Date(now + authorityLifeMs));
    return { authority, ...(await issuePair(authority, now)), keys: [createStoredKey(1, now)], version: 1 };
  }
  const { authority } = stored;
  const isCurrent = [stored.server, stored.bridge].every(
    (pair) => certificateDefect(pair, authority, now, now + renewServerMs) === undefined,
  );
  const renewed = isCurrent ? stored : { ...stored, ...(await issuePair(authority, now)) };
  if (now < (stored.keys.at(-1)?.createdAt ?? 0) + signingKeyLifeMs) return renewed;
  const version = stored.version + 1;
  return { ...renewed, keys: [...stored.keys.slice(-1), createStoredKey(version, now)], version };
}

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
