import { createCipheriv, createDecipheriv, createHash, hkdfSync } from "node:crypto";
import { BackupError } from "./backup-error.ts";

/*
 * Encryption of a stream of any length with bounded memory, in the manner of STREAM (Hoang, Reyhanitabar, Rogaway, Vizár 2015):
 *
 *   header: magic (8) | salt (32)
 *   chunk:  AES-256-GCM of 64 KiB | tag (16)     nonce: counter (11) | 1 for the last chunk, else 0
 *
 * Every file has its own key, derived from the salt, so nonces never repeat. The header is authenticated with each chunk. Chunks that
 * are changed, reordered, repeated or missing at the end are detected before their data is passed on.
 */

const magic = Buffer.from("KLSNBAK1");
const saltLength = 32;
const chunkLength = 65_536;
const tagLength = 16;
const frameLength = chunkLength + tagLength;
const keyLength = 32;

/** Reads a key of 32 bytes as base64 or hexadecimal digits. Throws a {@link BackupError} with code `InvalidKey`. */
export function parseKey(text: string): Buffer {
  const trimmed = text.trim();
  const key = /^[0-9a-fA-F]{64}$/.test(trimmed) ? Buffer.from(trimmed, "hex") : Buffer.from(trimmed, "base64");
  if (key.length !== keyLength || !/^([0-9a-fA-F]{64}|[A-Za-z0-9+/_-]{43}=?)$/.test(trimmed))
    throw new BackupError("InvalidKey", "the encryption key must be 32 bytes as base64 or as 64 hexadecimal digits");
  return key;
}

/** Identifies a key without revealing it. */
export function keyId(key: Uint8Array): string {
  return createHash("sha256").update("keelson backup key id").update(key).digest("hex").slice(0, 16);
}

/** Encrypts a stream. `salt`: 32 random bytes, never used twice with the same key. */
export async function* seal(data: AsyncIterable<Uint8Array>, key: Uint8Array, salt: Uint8Array): AsyncGenerator<Buffer> {
  const header = Buffer.concat([magic, salt]);
  const fileKey = deriveKey(key, salt);
  yield header;
  let index = 0;
  for await (const { bytes, isLast } of framesOf(data, chunkLength)) {
    const cipher = createCipheriv("aes-256-gcm", fileKey, nonceOf(index, isLast)).setAAD(header);
    yield Buffer.concat([cipher.update(bytes), cipher.final(), cipher.getAuthTag()]);
    index += 1;
  }
}

/**
 * Decrypts a stream of {@link seal}.
 *
 * **Errors**: a {@link BackupError}: `WrongKey` if the first chunk does not match, `Damaged` for all later ones.
 */
export async function* open(data: AsyncIterable<Uint8Array>, key: Uint8Array): AsyncGenerator<Buffer> {
  const headerLength = magic.length + saltLength;
  let header: Buffer | undefined;
  let fileKey: Buffer = Buffer.alloc(0);
  const body = (async function* (): AsyncGenerator<Uint8Array> {
    let start: Buffer = Buffer.alloc(0);
    for await (const chunk of data) {
      if (header !== undefined) {
        yield chunk;
        continue;
      }
      start = Buffer.concat([start, chunk]);
      if (start.length < headerLength) continue;
      header = start.subarray(0, headerLength);
      if (!header.subarray(0, magic.length).equals(magic))
        throw new BackupError("Damaged", "the data is not encrypted by Keelson");
      fileKey = deriveKey(key, header.subarray(magic.length));
      yield start.subarray(headerLength);
    }
  })();
  let index = 0;
  for await (const { bytes, isLast } of framesOf(body, frameLength)) {
    if (header === undefined || bytes.length < tagLength) throw new BackupError("Damaged", "the encrypted data is truncated");
    yield openFrame(bytes, { fileKey, header, index, isLast });
    index += 1;
  }
}

interface FrameContext {
  readonly fileKey: Buffer;
  readonly header: Buffer;
  readonly index: number;
  readonly isLast: boolean;
}

function openFrame(bytes: Buffer, { fileKey, header, index, isLast }: FrameContext): Buffer {
  const tag = bytes.subarray(bytes.length - tagLength);
  const decipher = createDecipheriv("aes-256-gcm", fileKey, nonceOf(index, isLast)).setAAD(header).setAuthTag(tag);
  const plain = decipher.update(bytes.subarray(0, bytes.length - tagLength));
  try {
    return Buffer.concat([plain, decipher.final()]);
  } catch (error) {
    if (index === 0)
      throw new BackupError("WrongKey", "the data cannot be decrypted with this key, or is damaged", { cause: error });
    throw new BackupError("Damaged", `the encrypted data is damaged or truncated at chunk ${index}`, { cause: error });
  }
}

function deriveKey(key: Uint8Array, salt: Uint8Array): Buffer {
  return Buffer.from(hkdfSync("sha256", key, salt, "keelson backup v1", keyLength));
}

function nonceOf(index: number, isLast: boolean): Buffer {
  const nonce = Buffer.alloc(12);
  nonce.writeBigUInt64BE(BigInt(index), 3);
  nonce[11] = isLast ? 1 : 0;
  return nonce;
}

/** Cuts a stream into frames of `length`. The last one is shorter or empty, unless the stream ends with a full one. */
async function* framesOf(
  data: AsyncIterable<Uint8Array>,
  length: number,
): AsyncGenerator<{ readonly bytes: Buffer; readonly isLast: boolean }> {
  let pending: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of data) {
    pending.push(chunk);
    size += chunk.length;
    // A full frame waits until more follows: only then is it not the last.
    if (size <= length) continue;
    let joined = Buffer.concat(pending);
    for (; joined.length > length; joined = joined.subarray(length)) yield { bytes: joined.subarray(0, length), isLast: false };
    pending = [joined];
    size = joined.length;
  }
  yield { bytes: Buffer.concat(pending), isLast: true };
}
