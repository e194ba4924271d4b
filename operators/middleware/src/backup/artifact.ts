import { createHash } from "node:crypto";
import { BackupError } from "./backup-error.ts";
import { open } from "./sealed-stream.ts";

/** Stored data of a backup. */
export interface Artifact {
  /** Path of the data in the storage. */
  readonly path: string;
  /** Size and checksum of the snapshot. */
  readonly sizeBytes: number;
  readonly sha256: string;
  /** Size and checksum of the stored file. They differ from those of the snapshot if it is encrypted. */
  readonly storedBytes: number;
  readonly storedSha256: string;
  readonly keys: number;
  readonly expiringKeys: number;
  /** Format of the snapshot, such as `rdb`. */
  readonly format: string;
  /** Version of the program that wrote it. */
  readonly programVersion: string;
  /** What `keys` counts, in plural. Default: keys. */
  readonly unit?: string;
  /** The first file of the log with which the data can be recovered to a later state. */
  readonly logStart?: string;
  /** Identifies the encryption key; undefined if the data is not encrypted. */
  readonly keyId?: string;
}

/** Counts and hashes the bytes that pass. */
export class Digest {
  readonly #hash = createHash("sha256");
  #bytes = 0;
  #sha256: string | undefined;

  get bytes(): number {
    return this.#bytes;
  }

  /** Checksum of all bytes. Nothing can pass after the first call. */
  get sha256(): string {
    this.#sha256 ??= this.#hash.digest("hex");
    return this.#sha256;
  }

  async *pass<T extends Uint8Array>(data: AsyncIterable<T>): AsyncGenerator<T> {
    for await (const chunk of data) {
      this.#hash.update(chunk);
      this.#bytes += chunk.length;
      yield chunk;
    }
  }
}

/**
 * The snapshot in stored data. Sizes and checksums are verified before the last chunk is passed on, so a consumer never gets all bytes
 * of data that was changed.
 *
 * **Errors**: a {@link BackupError} with code `Damaged`, `WrongKey`, or those of `stored`.
 */
export async function* verified(
  stored: AsyncIterable<Uint8Array>,
  artifact: Artifact,
  key: Uint8Array | undefined,
): AsyncGenerator<Uint8Array> {
  const outer = new Digest();
  const inner = new Digest();
  const passed = outer.pass(stored);
  let held: Uint8Array | undefined;
  for await (const chunk of inner.pass<Uint8Array>(key === undefined ? passed : open(passed, key))) {
    if (chunk.length === 0) continue;
    if (held !== undefined) yield held;
    held = chunk;
  }
  compare("stored data", outer, artifact.storedBytes, artifact.storedSha256);
  compare("snapshot", inner, artifact.sizeBytes, artifact.sha256);
  if (held !== undefined) yield held;
}

function compare(what: string, digest: Digest, bytes: number, sha256: string): void {
  if (digest.bytes !== bytes) throw new BackupError("Damaged", `the ${what} has ${digest.bytes} bytes instead of ${bytes}`);
  if (digest.sha256 !== sha256)
    throw new BackupError("Damaged", `the ${what} has the SHA-256 ${digest.sha256} instead of ${sha256}`);
}
