import { createHash, timingSafeEqual } from "node:crypto";

/** Returns a constant-time comparison with `secret`. An empty secret equals nothing. */
export function equalsSecret(secret: string): (text: string | Uint8Array) => boolean {
  const expected = sha256(secret);
  return (text) => timingSafeEqual(sha256(text), expected) && secret.length > 0;
}

/** SHA-256 of a join token in hex, the value of the Robot's annotation. */
export function joinTokenDigest(token: string): string {
  return sha256Hex(token);
}

/** SHA-256 in hex. */
export function sha256Hex(text: string | Uint8Array): string {
  return sha256(text).toString("hex");
}

/** Compares two digests in constant time. */
export function isSameDigest(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)];
  return left.length === right.length && timingSafeEqual(left, right);
}

const sha256 = (text: string | Uint8Array): Buffer => createHash("sha256").update(text).digest();
