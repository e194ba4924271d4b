import { createHash, timingSafeEqual } from "node:crypto";

/** A test of texts against `secret` that takes equally long wherever they differ. An empty secret equals nothing. */
export function equalsSecret(secret: string): (text: string | Uint8Array) => boolean {
  const expected = digest(secret);
  return (text) => timingSafeEqual(digest(text), expected) && secret.length > 0;
}

const digest = (text: string | Uint8Array): Buffer => createHash("sha256").update(text).digest();
