import { createHash, type KeyObject, sign, verify } from "node:crypto";

/** Key with which the controller signs messages. */
export interface SigningKey {
  readonly id: string;
  /** An Ed25519 private key. */
  readonly key: KeyObject;
}

/** A message is valid for this long after it was signed, by the controller's clock. It is signed again whenever it is sent again. */
export const messageValidityMs = 5 * 60_000;

/** Everything that {@link sealMessage} adds to a message, at its end. */
const seal =
  /,"signature":\{"key":"(?<key>[a-z0-9-]{1,64})","notAfter":(?<notAfter>\d{1,16}),"value":"(?<value>[A-Za-z0-9_-]{1,128})"\}\}$/;

const maxSealLength = 300;

/**
 * What a signature covers: the topic, which contains the robot's id and the type of the message; the expiry; and a digest of the whole
 * message, which contains the task and its attempt. Attempts increase with every dispatch and are the task's epoch.
 */
function signedBytes(topic: string, notAfter: number, body: string): Buffer {
  const digest = createHash("sha256").update(body).digest("hex");
  return Buffer.from(`keelson robot message\n${topic}\n${notAfter}\n${digest}`);
}

/**
 * Serializes a message to a robot and adds its signature as the last field, `signature`. The rest is unchanged, so original agents
 * understand it.
 */
export function sealMessage(topic: string, message: object, { id, key }: SigningKey, now: number): string {
  const body = JSON.stringify(message);
  const notAfter = now + messageValidityMs;
  const value = sign(null, signedBytes(topic, notAfter, body), key).toString("base64url");
  const separator = body === "{}" ? "" : ",";
  return `${body.slice(0, -1)}${separator}"signature":{"key":"${id}","notAfter":${notAfter},"value":"${value}"}}`;
}

/** Result of {@link openMessage}. `unknown-key`: the robot may lack a newer trust bundle. */
export type OpenedMessage =
  | { readonly kind: "valid"; readonly body: string }
  | { readonly kind: "unknown-key"; readonly reason: string }
  | { readonly kind: "invalid"; readonly reason: string };

/**
 * Checks the signature of a message from the controller. `body` of the result is exactly what was signed, without the signature.
 *
 * @param now the controller's time in milliseconds; undefined skips the check of the expiry
 */
export function openMessage(
  topic: string,
  payload: Uint8Array,
  { keys, now }: { readonly keys: ReadonlyMap<string, KeyObject>; readonly now: number | undefined },
): OpenedMessage {
  const text = Buffer.from(payload).toString("utf8");
  const tail = text.slice(-maxSealLength);
  const match = seal.exec(tail);
  const { key: id = "", notAfter: notAfterText = "", value = "" } = match?.groups ?? {};
  if (match === null) return { kind: "invalid", reason: "it is not signed" };
  const key = keys.get(id);
  if (key === undefined) return { kind: "unknown-key", reason: `it is signed with the unknown key ${id}` };
  const notAfter = Number(notAfterText);
  const body = `${text.slice(0, text.length - tail.length + match.index)}}`;
  if (!verify(null, signedBytes(topic, notAfter, body), key, Buffer.from(value, "base64url"))) {
    return { kind: "invalid", reason: "its signature does not match: it was changed, or it is for another robot" };
  }
  if (now !== undefined && now > notAfter) return { kind: "invalid", reason: "it has expired" };
  return { kind: "valid", body };
}
