import { isJsonObject, type JsonObject, parseApiVersion, type Status } from "@keelson/api-machinery";
import { type Clock, formatTime, sleep } from "@keelson/api-machinery/time";
import type { Handle } from "../endpoints/outcome.ts";
import { listAt, textAt } from "../registry/object-fields.ts";
import type { ResourceTable, ServedResource } from "../registry/served-resource.ts";
import { systemUser } from "../system-user.ts";
import { type Store, storageKey, type StoredObject, storagePrefix } from "../storage/store.ts";

/** What {@link startStorageMigration} takes. */
export interface StorageMigrationOptions {
  readonly store: Pick<Store, "get" | "list" | "watch" | "revision">;
  readonly resources: Pick<ResourceTable, "list" | "onChange">;
  readonly handle: Handle;
  readonly clock: Clock;
  /** Called with background errors. */
  readonly onError: (error: unknown) => void;
}

const prefix = storageKey({ group: "storagemigration.k8s.io", plural: "storageversionmigrations" }, "", "");
const path = "/apis/storagemigration.k8s.io/v1beta1/storageversionmigrations";
const fieldManager = "storage-version-migrator-controller";
/** How long a resource may be unknown after the migration was created, as its CustomResourceDefinition may be new. */
const unknownResourceMs = 60_000;
const retryMs = 1_000;
/** Objects read at a time. */
const pageSize = 500;

/**
 * Runs StorageVersionMigrations one after the other, like kube-controller-manager's storage-version-migrator-controller: writes each object of the
 * resource without changing it, which stores it in the current storage version. `status.storedVersions` of a CustomResourceDefinition
 * is not updated; the user removes old versions.
 */
export function startStorageMigration(options: StorageMigrationOptions): { stop(): Promise<void> } {
  return new StorageMigration(options);
}

class StorageMigration {
  readonly #options: StorageMigrationOptions;
  readonly #stopped = new AbortController();
  readonly #queue = new Set<string>();
  readonly #watch: { close(): void };
  readonly #unsubscribe: () => void;
  #running: Promise<void> | undefined;
  /** Whether a migration or the resources changed since the queue was last processed. */
  #isDue = false;
  #pause: AbortController | undefined;

  constructor(options: StorageMigrationOptions) {
    this.#options = options;
    const { store } = options;
    const { items, revision } = store.list(prefix);
    for (const stored of items) this.#enqueue(stored);
    this.#watch = store.watch(prefix, revision, (events) => {
      for (const { type, object } of events) if (type === "put") this.#enqueue(object);
    });
    this.#unsubscribe = options.resources.onChange(() => this.#wake());
  }

  async stop(): Promise<void> {
    this.#unsubscribe();
    this.#watch.close();
    this.#stopped.abort();
    await this.#running;
  }

  #enqueue(stored: StoredObject): void {
    if (isFinished(stored)) return;
    this.#queue.add(stored.key);
    this.#wake();
    this.#running ??= this.#run();
  }

  #wake(): void {
    this.#isDue = true;
    this.#pause?.abort();
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopped;
    // Lets the write that caused this finish.
    await Promise.resolve();
    while (this.#queue.size > 0 && !signal.aborted) {
      this.#isDue = false;
      const waitMs = await this.#migrateAll();
      if (waitMs !== undefined && !this.#isDue) await this.#sleep(waitMs);
    }
    // In the same turn as the check of the queue, so that a migration enqueued later starts a new run.
    this.#running = undefined;
  }

  /** Sleeps for `ms`, or until {@link #wake}. */
  async #sleep(ms: number): Promise<void> {
    this.#pause = new AbortController();
    const signal = AbortSignal.any([this.#stopped.signal, this.#pause.signal]);
    await sleep(this.#options.clock, ms, signal).catch(() => undefined);
    this.#pause = undefined;
  }

  /** Runs the queued migrations. Returns after how many milliseconds to retry; undefined if none is left. */
  async #migrateAll(): Promise<number | undefined> {
    let waitMs: number | undefined;
    for (const key of [...this.#queue]) {
      if (this.#stopped.signal.aborted) return undefined;
      try {
        if (await this.#migrate(key)) this.#queue.delete(key);
        else waitMs = Math.min(waitMs ?? Infinity, this.#retryAfterMs(key));
      } catch (error) {
        this.#options.onError(error);
        waitMs = retryMs;
      }
    }
    return waitMs;
  }

  /** A migration of an unknown resource waits until the resources change, or until it fails. */
  #retryAfterMs(key: string): number {
    const stored = this.#options.store.get(key);
    if (stored === undefined || this.#resourceOf(stored) !== undefined) return retryMs;
    return Math.max(retryMs, deadlineOf(stored) - this.#options.clock.now());
  }

  #resourceOf({ object }: StoredObject): ServedResource | undefined {
    const group = textAt(object, "spec", "resource", "group");
    const plural = textAt(object, "spec", "resource", "resource");
    return this.#options.resources
      .list()
      .find((each) => each.group === group && each.plural === plural && each.verbs.includes("patch"));
  }

  /** Returns true once the migration is finished or gone; false to retry. */
  async #migrate(key: string): Promise<boolean> {
    const { store, clock } = this.#options;
    const stored = store.get(key);
    if (stored === undefined || isFinished(stored)) return true;
    const name = stored.object.metadata.name ?? "";
    const resource = this.#resourceOf(stored);
    if (resource === undefined) {
      if (clock.now() < deadlineOf(stored)) return false;
      return this.#report(name, "Failed", "StorageVersionMigrationFailed", "resource not found");
    }
    if (!(await this.#report(name, "Running", "StorageVersionMigrationInProgress", ""))) return false;
    const isMigrated = await this.#rewriteAll(resource);
    if (this.#stopped.signal.aborted) return false;
    return isMigrated
      ? this.#report(name, "Succeeded", "StorageVersionMigrationSucceeded", "")
      : this.#report(name, "Failed", "StorageVersionMigrationFailed", "migration encountered unhandled error");
  }

  /** Rewrites the objects that exist now. Later ones are in the storage version already. Returns false if one cannot be written. */
  async #rewriteAll(resource: ServedResource): Promise<boolean> {
    const { store } = this.#options;
    const objects = storagePrefix({ group: parseApiVersion(resource.storageApiVersion).group, plural: resource.plural });
    let startAfter: string | undefined;
    do {
      const page = store.list(objects, { limit: pageSize, ...(startAfter === undefined ? {} : { startAfter }) });
      for (const { object } of page.items) {
        if (this.#stopped.signal.aborted) return false;
        const status = await this.#rewrite(resource, object.metadata);
        if (status !== undefined && status.reason !== "Conflict" && status.reason !== "NotFound") return false;
      }
      startAfter = page.next;
    } while (startAfter !== undefined);
    return true;
  }

  /**
   * Applies nothing to an object. Its uid and resourceVersion make the apply fail with a conflict if the object was updated or deleted
   * in the meantime, so that it needs no migration.
   */
  async #rewrite(resource: ServedResource, metadata: StoredObject["object"]["metadata"]): Promise<Status | undefined> {
    const { group, version, kind, plural } = resource;
    const { namespace, name = "", uid = "", resourceVersion = "" } = metadata;
    const root = group === "" ? `/api/${version}` : `/apis/${group}/${version}`;
    const inNamespace = namespace === undefined ? "" : `/namespaces/${namespace}`;
    const outcome = await this.#options.handle({
      method: "PATCH",
      path: `${root}${inNamespace}/${plural}/${encodeURIComponent(name)}`,
      query: { fieldManager },
      headers: { "content-type": "application/apply-patch+yaml" },
      body: { apiVersion: group === "" ? version : `${group}/${version}`, kind, metadata: { name, uid, resourceVersion } },
      user: systemUser,
      userAgent: fieldManager,
    });
    return outcome.kind === "status" ? outcome.status : undefined;
  }

  /** Sets a condition. Returns false if the migration changed in the meantime. */
  async #report(name: string, type: "Running" | "Succeeded" | "Failed", reason: string, message: string): Promise<boolean> {
    const { store, handle, clock } = this.#options;
    const stored = store.get(`${prefix}${name}`);
    if (stored === undefined) return true;
    const lastTransitionTime = formatTime(clock.now());
    const before = listAt(stored.object, "status", "conditions").filter(isJsonObject);
    if (before.some((condition) => condition["type"] === type && condition["status"] === "True")) return true;
    const others = before
      .filter((condition) => condition["type"] !== type)
      .map((condition) =>
        condition["type"] === "Running" ? { ...condition, status: "False", lastTransitionTime } : condition,
      );
    const conditions: JsonObject[] = [...others, { type, status: "True", lastTransitionTime, reason, message }];
    const resourceVersion = textAt(stored.object, "status", "resourceVersion") || String(store.revision);
    const outcome = await handle({
      method: "PUT",
      path: `${path}/${encodeURIComponent(name)}/status`,
      body: { ...JSON.parse(JSON.stringify(stored.object)), status: { conditions, resourceVersion } },
      user: systemUser,
      userAgent: fieldManager,
    });
    return outcome.kind !== "status";
  }
}

/** When a migration of an unknown resource fails. */
function deadlineOf({ object }: StoredObject): number {
  return Date.parse(object.metadata.creationTimestamp ?? "") + unknownResourceMs;
}

function isFinished({ object }: StoredObject): boolean {
  return listAt(object, "status", "conditions").some(
    (condition) => ["Succeeded", "Failed"].includes(textAt(condition, "type")) && textAt(condition, "status") === "True",
  );
}
