import { mkdir, readdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { PodResources, Resources } from "../resources/pod-resources.ts";

/** What is stored about a Pod in addition to its programs. */
export interface PodRecord {
  readonly namespace: string;
  readonly name: string;
  readonly podIP: string;
  /** The resources that the node has admitted. Written before they take effect. */
  readonly allocated?: PodResources;
  /** The resources that running attempts have after a resize. */
  readonly actuated?: Readonly<Record<string, { readonly attempt: number; readonly resources: Resources }>>;
}

/** The records of the Pods of a node: a file in the directory of each Pod. */
export class PodRecords {
  readonly #dir: string;
  readonly #records = new Map<string, PodRecord>();
  readonly #writes = new Map<string, Promise<void>>();

  /** `dir` has one directory per Pod, named by its uid. */
  constructor(dir: string) {
    this.#dir = dir;
  }

  /** Loads the records of an earlier kubelet, except those that `accept` rejects. */
  async load(accept: (uid: string, record: PodRecord) => boolean): Promise<void> {
    for (const uid of await readdir(this.#dir)) {
      try {
        const record = JSON.parse(await readFile(join(this.#dir, uid, "pod.json"), "utf8")) as PodRecord;
        if (accept(uid, record)) this.#records.set(uid, record);
      } catch {
        // The directory was being created or removed. It is recreated if the Pod still exists.
      }
    }
  }

  get(uid: string): PodRecord | undefined {
    return this.#records.get(uid);
  }

  /** Replaces a record in memory; {@link write} stores it. */
  set(uid: string, record: PodRecord): void {
    this.#records.set(uid, record);
  }

  /** Adds to a record and stores it. Does nothing for an unknown Pod. */
  update(uid: string, change: Partial<PodRecord>): Promise<void> {
    const record = this.#records.get(uid);
    if (record === undefined) return Promise.resolve();
    this.#records.set(uid, { ...record, ...change });
    return this.write(uid);
  }

  /** Stores the newest record, one write at a time. Rejects if the file cannot be written. */
  write(uid: string): Promise<void> {
    const before = this.#writes.get(uid) ?? Promise.resolve();
    const writing = before
      .catch(() => {})
      .then(() => this.#write(uid))
      .finally(() => {
        if (this.#writes.get(uid) === writing) this.#writes.delete(uid);
      });
    this.#writes.set(uid, writing);
    return writing;
  }

  /** Resolves when requested writes have ended. */
  async settled(uid: string): Promise<void> {
    await this.#writes.get(uid)?.catch(() => {});
  }

  /** Forgets a Pod, whose directory may be removed once this resolves. */
  async forget(uid: string): Promise<void> {
    this.#records.delete(uid);
    await this.settled(uid);
  }

  async #write(uid: string): Promise<void> {
    const record = this.#records.get(uid);
    if (record === undefined) return;
    const folder = join(this.#dir, uid);
    await mkdir(folder, { recursive: true, mode: 0o755 });
    const file = join(folder, "pod.json");
    await writeFile(`${file}.new`, `${JSON.stringify(record)}\n`);
    await rename(`${file}.new`, file);
  }
}
