import { promisify } from "node:util";
import { gunzip, gzip } from "node:zlib";
import { BackupError } from "./backup-error.ts";
import type { BackupStore } from "./backup-store.ts";
import { open, seal } from "./sealed-stream.ts";

const [compress, decompress] = [promisify(gzip), promisify(gunzip)];
const saltLength = 32;
const sequenceLength = 12;
/** Names come from an agent and become those of files. */
const fileName = /^[\w.-]{1,200}$/;
const storedName = /^(\d{12})-(.+)$/;

/** Where a log is archived, and how it is encrypted. */
export interface LogStoreOptions {
  readonly store: BackupStore;
  readonly folder: string;
  readonly encryptionKey: Uint8Array | undefined;
  /** Returns that many random bytes. */
  readonly randomBytes: (length: number) => Uint8Array;
}

/**
 * Archived files of a program's log, compressed and optionally encrypted. Their checksums are those of gzip or of the encryption. The names
 * of the stored files begin with a number, so that the order in which they were archived is known without the meaning of their names.
 */
export class LogStore {
  readonly #options: LogStoreOptions;
  /** Sequence numbers by name. */
  readonly #files: Map<string, number>;

  private constructor(options: LogStoreOptions, files: Map<string, number>) {
    this.#options = options;
    this.#files = files;
  }

  static async open(options: LogStoreOptions): Promise<LogStore> {
    const stored = await options.store.list(options.folder);
    const files = new Map<string, number>();
    for (const each of stored) {
      const [, sequence, name] = storedName.exec(each) ?? [];
      // A name with two numbers has the same content: only one of the two was confirmed.
      if (sequence !== undefined && name !== undefined) files.set(name, Math.max(Number(sequence), files.get(name) ?? 0));
    }
    return new LogStore(options, files);
  }

  get names(): ReadonlySet<string> {
    return new Set(this.#files.keys());
  }

  /**
   * Stores a file durably. One that exists must have the same content: an earlier attempt has stored it.
   *
   * **Errors**: a {@link BackupError} with code `Damaged` if it has not; nothing is overwritten.
   */
  async put(name: string, data: Uint8Array): Promise<void> {
    if (!fileName.test(name)) throw new BackupError("Storage", `the name ${JSON.stringify(name)} of a log file is not valid`);
    if (this.#files.has(name)) {
      // Stored again: the writer may have died before the file was durable.
      if (Buffer.compare(await this.#contentOf(name), data) === 0)
        return await this.#write(name, data, this.#files.get(name) ?? 0);
      throw new BackupError("Damaged", `${name} is archived with other content: the log of another history has the same name`);
    }
    let last = 0;
    for (const sequence of this.#files.values()) last = Math.max(last, sequence);
    await this.#write(name, data, last + 1);
    this.#files.set(name, last + 1);
  }

  async #write(name: string, data: Uint8Array, sequence: number): Promise<void> {
    const { store, encryptionKey, randomBytes } = this.#options;
    const compressed = once(await compress(data, { level: 1 }));
    await store.write(
      this.#pathOf(name, sequence),
      encryptionKey === undefined ? compressed : seal(compressed, encryptionKey, randomBytes(saltLength)),
    );
  }

  /** Reads a file. **Errors**: a {@link BackupError}. */
  async *read(name: string): AsyncGenerator<Uint8Array> {
    const content = await this.#contentOf(name);
    for (let at = 0; at < content.length; at += chunkBytes) yield content.subarray(at, at + chunkBytes);
  }

  /** Reads and verifies everything from a file on. Returns the number of files. */
  async verify(from: string): Promise<number> {
    const start = this.#files.get(from);
    if (start === undefined)
      throw new BackupError(
        "NotFound",
        `the archived log does not contain ${from}, with which a recovery of this backup starts`,
      );
    const names = [...this.#files].filter(([, sequence]) => sequence >= start).map(([name]) => name);
    for (const name of names) await this.#contentOf(name);
    return names.length;
  }

  /** Deletes all files that were archived before each of some. Deletes nothing if one of these does not exist. */
  async deleteBefore(names: readonly string[]): Promise<number> {
    const limits = names.map((name) => this.#files.get(name) ?? 0);
    const old = [...this.#files].filter(([, sequence]) => limits.length > 0 && limits.every((limit) => sequence < limit));
    for (const [each, sequence] of old) {
      await this.#options.store.removeFile(this.#pathOf(each, sequence));
      this.#files.delete(each);
    }
    return old.length;
  }

  #pathOf(name: string, sequence: number): string {
    return `${this.#options.folder}/${String(sequence).padStart(sequenceLength, "0")}-${name}`;
  }

  async #contentOf(name: string): Promise<Buffer> {
    const sequence = this.#files.get(name);
    if (sequence === undefined) throw new BackupError("NotFound", `${name} is not in the archived log`);
    const { store, encryptionKey } = this.#options;
    const stored = store.read(this.#pathOf(name, sequence));
    const chunks: Uint8Array[] = [];
    for await (const chunk of encryptionKey === undefined ? stored : open(stored, encryptionKey)) chunks.push(chunk);
    try {
      return await decompress(Buffer.concat(chunks));
    } catch (error) {
      throw new BackupError("Damaged", `the archived log file ${name} is damaged`, { cause: error });
    }
  }
}

const chunkBytes = 262_144;

async function* once(data: Uint8Array): AsyncGenerator<Uint8Array> {
  yield data;
}
