import { createHash, type KeyObject, sign, verify } from "node:crypto";
import { isJsonObject } from "@keelson/api-machinery";
import { robotIdPattern } from "../protocol/messages.ts";
import { readPublicKey } from "./one-time-token.ts";
import { authorityIdOf, type SignedTrustBundle } from "./authority/trust-bundle.ts";

/**
 * Added. Agent to server, on `k8s4r/robots/{id}/join` (QoS 1): asks for a certificate of the robot's public key. `signature` is by the key of the
 * join token or, to renew, by the robot's own key.
 */
export interface JoinRequest {
  readonly robotId: string;
  /** Id of the join token. Absent to renew the certificate of a key that the robot is bound to. */
  readonly tokenId?: string;
  /** SubjectPublicKeyInfo (DER, base64) of the robot's key, ECDSA P-256. */
  readonly publicKey: string;
  /** Identifies the request. */
  readonly nonce: string;
  /** Labels of the Robot if this request creates it. Those of the token take precedence. */
  readonly labels?: Readonly<Record<string, string>>;
  /** Pins of the certificate authorities that the robot trusts. Not signed: a robot checks who issued its certificate. Absent: an older agent. */
  readonly trusts?: readonly string[];
  /** Base64. */
  readonly signature: string;
}

/** Added. Server to agent, on `k8s4r/robots/{id}/join/answer` (QoS 1). Nothing in it is secret. */
export type JoinAnswer =
  | {
      readonly nonce: string;
      /** PEM. The agent checks that the authority has the pin of its token and has signed the certificate of its key. */
      readonly certificate: string;
      /** PEM of the robots' certificate authority. */
      readonly authority: string;
      readonly trust: SignedTrustBundle;
    }
  | { readonly nonce: string; readonly rejected: string };

type Unsigned = Omit<JoinRequest, "signature">;

const signedBytes = ({ robotId, tokenId = "", publicKey, nonce, labels = {} }: Unsigned): Buffer =>
  Buffer.from(["keelson robot join", robotId, tokenId, publicKey, nonce, JSON.stringify(labels)].join("\n"));

/** Algorithm that `sign` needs for a key: Ed25519 has its own digest. */
const digestFor = (key: KeyObject): string | null => (key.asymmetricKeyType === "ed25519" ? null : "sha256");

/** Signs a request with the key of the join token, or with the robot's key. */
export function signJoinRequest(request: Unsigned, key: KeyObject): JoinRequest {
  return { ...request, signature: sign(digestFor(key), signedBytes(request), key).toString("base64") };
}

/** Whether a request is signed by this key (see `publicKeyText`). */
export function isSignedBy(request: JoinRequest, publicKey: string): boolean {
  const key = readPublicKey(publicKey);
  return verify(digestFor(key), signedBytes(request), key, Buffer.from(request.signature, "base64"));
}

const maxLabels = 64;
const maxTrusted = 8;

/** Parses a request for robot `robotId`. Undefined if it is not valid. */
export function readJoinRequest(body: unknown, robotId: string): JoinRequest | undefined {
  if (!isJsonObject(body) || body.robotId !== robotId || !robotIdPattern.test(robotId)) return undefined;
  const { tokenId, publicKey, nonce, signature, trusts, labels = {} } = body;
  if (!isShort(publicKey, 200) || !isShort(nonce, 64) || !isShort(signature, 200)) return undefined;
  if (tokenId !== undefined && !isTokenId(tokenId)) return undefined;
  if (!isJsonObject(labels) || (trusts !== undefined && !isPins(trusts))) return undefined;
  const entries = Object.entries(labels).flatMap(([key, value]) =>
    typeof value === "string" && value.length <= 256 && key.length <= 256 ? [[key, value] as const] : [],
  );
  if (entries.length !== Object.keys(labels).length || entries.length > maxLabels) return undefined;
  if (!isP256(publicKey)) return undefined;
  return {
    ...{ robotId, publicKey, nonce, signature },
    ...(tokenId === undefined ? {} : { tokenId }),
    ...(trusts === undefined ? {} : { trusts }),
    labels: Object.fromEntries(entries),
  };
}

const isShort = (value: unknown, length: number): value is string =>
  typeof value === "string" && value.length > 0 && value.length <= length;

const isPins = (value: unknown): value is readonly string[] =>
  Array.isArray(value) && value.length <= maxTrusted && value.every((each) => isShort(each, 64));

const isTokenId = (value: unknown): value is string => typeof value === "string" && /^[a-z0-9]{8}$/.test(value);

function isP256(publicKey: string): boolean {
  try {
    return readPublicKey(publicKey).asymmetricKeyDetails?.namedCurve === "prime256v1";
  } catch {
    return false;
  }
}

/** SHA-256 (hex) of a public key, which a Robot is bound to. */
export function keyDigest(publicKey: string): string {
  return createHash("sha256").update(Buffer.from(publicKey, "base64")).digest("hex");
}

/** User name with which agents join at an external broker. The password is the pin of the oldest authority that the broker trusts. */
export const externalJoinUser = "keelson-join";

/** The same for any authority that the broker trusts, while one is replaced. The password is its pin. */
export const externalJoinUserOf = (pin: string): string => `${externalJoinUser}-${authorityIdOf(pin)}`;

/** Client id with which an agent joins at the embedded broker: its user name is the robot's id, and its password a {@link JoinRequest} as JSON. */
export const joinClientId = (robotId: string): string => `keelson-join-${robotId}`;
