import { createHash, createPrivateKey, createPublicKey, type KeyObject } from "node:crypto";
import { RobotsError } from "../robots-error.ts";

/**
 * A join token that admits one robot once. Its text is `<id>.<secret>.<pin>`.
 *
 * **Guarantees**: the secret never leaves the robot, and the cluster does not store it: the robot signs its join request with a key that is
 * derived from the secret, of which the cluster has the public half. A broker that relays the request learns nothing that it could join with.
 */
export interface OneTimeToken {
  /** Public: identifies the token in lists, events and requests. */
  readonly id: string;
  readonly secret: string;
  /** SHA-256 (base64url) of the public key of the robots' certificate authority, so that the robot recognizes the genuine controller. */
  readonly pin: string;
}

const pattern = /^(?<id>[a-z0-9]{8})\.(?<secret>[A-Za-z0-9_-]{32})\.(?<pin>[A-Za-z0-9_-]{43})$/;
const idAlphabet = "abcdefghijklmnopqrstuvwxyz234567";

/** Generates a token. `random` returns that many random bytes. */
export function createOneTimeToken(pin: string, random: (bytes: number) => Buffer): OneTimeToken {
  const id = [...random(8)].map((byte) => idAlphabet[byte % idAlphabet.length]).join("");
  return { id, secret: random(24).toString("base64url"), pin };
}

/** The text that users pass to an agent. */
export function formatOneTimeToken({ id, secret, pin }: OneTimeToken): string {
  return `${id}.${secret}.${pin}`;
}

/** Parses the text of a token. Undefined for any other text, such as the shared join token. */
export function parseOneTimeToken(text: string): OneTimeToken | undefined {
  const { id, secret, pin } = pattern.exec(text)?.groups ?? {};
  return id === undefined || secret === undefined || pin === undefined ? undefined : { id, secret, pin };
}

/**
 * Rejects a text that begins like a one-time token and is not a valid one: sent as a shared join token, it could reveal its secret.
 *
 * **Errors**: throws {@link RobotsError} `JoinFailed`.
 */
export function requireCompleteToken(text: string): void {
  if (/^[a-z0-9]{8}\./.test(text) && parseOneTimeToken(text) === undefined) {
    throw new RobotsError("JoinFailed", "the join token is incomplete: copy all three parts, ID.SECRET.PIN");
  }
}

/** PKCS #8 header of an Ed25519 private key (RFC 8410), which the 32 bytes of the key follow. */
const ed25519Header = Buffer.from("302e020100300506032b657004220420", "hex");

/** The Ed25519 key that is derived from a token's secret. */
export function tokenKey({ secret }: Pick<OneTimeToken, "secret">): KeyObject {
  const seed = createHash("sha256").update(`keelson robot join token\n${secret}`).digest();
  return createPrivateKey({ key: Buffer.concat([ed25519Header, seed]), format: "der", type: "pkcs8" });
}

/** SubjectPublicKeyInfo (DER, base64) of a key. */
export function publicKeyText(key: KeyObject): string {
  const publicKey = key.type === "public" ? key : createPublicKey(key);
  return publicKey.export({ type: "spki", format: "der" }).toString("base64");
}

/**
 * Reads a public key from its {@link publicKeyText}.
 *
 * **Errors**: {@link RobotsError} `InvalidKey`.
 */
export function readPublicKey(text: string): KeyObject {
  try {
    return createPublicKey({ key: Buffer.from(text, "base64"), format: "der", type: "spki" });
  } catch (error) {
    throw new RobotsError("InvalidKey", "not a valid public key", { cause: error });
  }
}
