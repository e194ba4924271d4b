import { createHash, createHmac, pbkdf2, timingSafeEqual } from "node:crypto";
import { promisify } from "node:util";

const iterations = 4_096;
const verifierPattern = /^SCRAM-SHA-256\$(\d{1,7}):([A-Za-z0-9+/=]{4,100})\$([A-Za-z0-9+/=]{44}):([A-Za-z0-9+/=]{44})$/;

/** Whether a text is a SCRAM-SHA-256 verifier, as PostgreSQL stores it. */
export const isScramVerifier = (text: string): boolean => verifierPattern.test(text);

const deriveKey = promisify(pbkdf2);

/** Creates the SCRAM-SHA-256 verifier of a password (RFC 5803), as PostgreSQL stores it, in another thread. `salt`: 16 random bytes. */
export async function createScramVerifier(password: string, salt: Uint8Array): Promise<string> {
  const { storedKey, serverKey } = await keysOf(password, salt, iterations);
  return `SCRAM-SHA-256$${iterations}:${Buffer.from(salt).toString("base64")}$${storedKey}:${serverKey}`;
}

/** Resolves to whether a verifier is that of a password. False for a text that is not a verifier. */
export async function matchesScramVerifier(verifier: string, password: string): Promise<boolean> {
  const [, count, salt, storedKey = "", serverKey = ""] = verifierPattern.exec(verifier) ?? [];
  if (count === undefined || salt === undefined || Number(count) === 0) return false;
  const expected = await keysOf(password, Buffer.from(salt, "base64"), Number(count));
  const [own, other] = [Buffer.from(`${storedKey}:${serverKey}`), Buffer.from(`${expected.storedKey}:${expected.serverKey}`)];
  return own.length === other.length && timingSafeEqual(own, other);
}

async function keysOf(
  password: string,
  salt: Uint8Array,
  count: number,
): Promise<{ readonly storedKey: string; readonly serverKey: string }> {
  // What SASLprep does to passwords without control characters.
  const salted = await deriveKey(password.normalize("NFKC"), salt, count, 32, "sha256");
  const sign = (text: string): Buffer => createHmac("sha256", salted).update(text).digest();
  return {
    storedKey: createHash("sha256").update(sign("Client Key")).digest("base64"),
    serverKey: sign("Server Key").toString("base64"),
  };
}
