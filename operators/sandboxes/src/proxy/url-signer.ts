import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { isJsonObject, parseJsonObject } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import { writeFileAtomic } from "@keelson/execution/files";

/*
 * Signatures that grant access to one port of one sandbox until they expire. The sandbox's id changes with each start, so a signature
 * never outlives the sandbox that it was made for.
 */

/** What a signature grants access to. */
export interface SignedPort {
  readonly sandboxId: string;
  readonly port: number;
}

interface SigningKey {
  readonly id: string;
  /** Base64. */
  readonly secret: string;
  readonly createdAtMs: number;
}

/** Maximum validity of a signature. */
export const maxSignatureMs = 7 * 24 * 60 * 60 * 1000;

/** A key signs for this long. It verifies until its last signature has expired. */
const keyLifeMs = 24 * 60 * 60 * 1000;

/** Signs and verifies with keys that are kept in a file and replaced daily. */
export class UrlSigner {
  readonly #file: string;
  readonly #clock: Pick<Clock, "now">;
  #keys: readonly SigningKey[];
  #writing: Promise<void> = Promise.resolve();

  private constructor(file: string, clock: Pick<Clock, "now">, keys: readonly SigningKey[]) {
    this.#file = file;
    this.#clock = clock;
    this.#keys = keys;
  }

  /** Opens the keys in `file`. A file that is missing, damaged, a link, or that other users can use means no keys: it is replaced. */
  static async open(file: string, clock: Pick<Clock, "now">): Promise<UrlSigner> {
    return new UrlSigner(file, clock, parseKeys(await readPrivate(file)));
  }

  /** A signature that is valid until `expiresAtMs`. Resolves once its key is on disk. */
  async sign(target: SignedPort, expiresAtMs: number): Promise<string> {
    const key = await this.#currentKey();
    const expiry = Math.floor(expiresAtMs / 1000);
    return `${key.id}.${expiry}.${signatureOf(key, target, expiry).toString("base64url")}`;
  }

  /** When a signature expires; undefined if it is not valid for the target now. */
  verify(target: SignedPort, signature: string): number | undefined {
    const [, id, digits, digest = ""] = /^([0-9a-f]{16})\.(\d{1,12})\.([\w-]{43})$/.exec(signature) ?? [];
    const key = this.#keys.find((each) => each.id === id);
    if (key === undefined) return undefined;
    const expiry = Number(digits);
    const isSame = timingSafeEqual(signatureOf(key, target, expiry), Buffer.from(digest, "base64url"));
    return isSame && expiry * 1000 > this.#clock.now() ? expiry * 1000 : undefined;
  }

  async #currentKey(): Promise<SigningKey> {
    const now = this.#clock.now();
    // A clock that was set back leaves keys of the future, which would never be replaced.
    const isCurrent = ({ createdAtMs }: SigningKey): boolean => createdAtMs <= now && now < createdAtMs + keyLifeMs;
    const present = this.#keys.find(isCurrent);
    const key = present ?? newKey(now);
    if (present === undefined) {
      const isNeeded = ({ createdAtMs }: SigningKey): boolean => now < createdAtMs + keyLifeMs + maxSignatureMs;
      this.#keys = [key, ...this.#keys.filter(isNeeded)];
      const text = JSON.stringify({ keys: this.#keys });
      this.#writing = this.#writing
        .catch(() => {})
        .then(() => writeFileAtomic(this.#file, text, { durable: true }))
        .catch((error: unknown) => {
          // The next signature tries again, with another key.
          this.#keys = this.#keys.filter((each) => each !== key);
          throw error;
        });
    }
    await this.#writing;
    return key;
  }
}

const newKey = (now: number): SigningKey => ({
  id: randomBytes(8).toString("hex"),
  secret: randomBytes(32).toString("base64"),
  createdAtMs: now,
});

const signatureOf = ({ secret }: SigningKey, { sandboxId, port }: SignedPort, expiry: number): Buffer =>
  createHmac("sha256", Buffer.from(secret, "base64")).update(`keelson-sandbox-port\n${sandboxId}\n${port}\n${expiry}`).digest();

/** The text of a regular file of this process's user; empty for any other. Its group may be that of the volume (`fsGroup`). */
async function readPrivate(file: string): Promise<string> {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
  const handle = await open(file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK).catch((error: unknown) => {
    if (error instanceof Error && "code" in error && (error.code === "ENOENT" || error.code === "ELOOP")) return undefined;
    throw error;
  });
  try {
    const found = await handle?.stat();
    const isPrivate = found?.isFile() === true && found.uid === process.geteuid?.() && (found.mode & 0o007) === 0;
    return isPrivate && handle !== undefined ? await handle.readFile("utf8") : "";
  } finally {
    await handle?.close();
  }
}

function parseKeys(text: string): readonly SigningKey[] {
  const { keys } = parseJsonObject(text) ?? {};
  if (!Array.isArray(keys)) return [];
  return keys.filter(isJsonObject).flatMap(({ id, secret, createdAtMs }) => {
    const isKey = typeof id === "string" && typeof secret === "string" && typeof createdAtMs === "number";
    // A short secret could be guessed.
    return isKey && Buffer.from(secret, "base64").length >= 32 ? [{ id, secret, createdAtMs }] : [];
  });
}
