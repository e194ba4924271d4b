import { type DeepReadonly, ignoreNotFound, isConflict, isNotFound } from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import type { Cache } from "@keelson/controller";
import { Task } from "../api/task.ts";
import { RobotsError } from "../robots-error.ts";
import { isLater } from "./resource-versions.ts";

/** Maximum number of conflicts of one update. */
const maxConflicts = 8;

type TaskStatus = NonNullable<Task["status"]>;

/** Options of {@link TaskWrites}. */
export interface TaskWritesOptions {
  readonly client: Client;
  readonly cache: Cache;
  readonly namespace: string;
  readonly fieldManager: string;
}

/** Result of {@link TaskWrites.update}: what the last decision was, and whether the Task exists. */
export interface TaskUpdate<T> {
  readonly decision: T;
  readonly task: DeepReadonly<Task> | undefined;
  readonly isWritten: boolean;
}

/** Reads Tasks at least as new as the bridge's own writes, and writes their status if they have not changed in the meantime. */
export class TaskWrites {
  readonly #options: TaskWritesOptions;
  /** Own writes that the cache does not show yet, by uid. */
  readonly #written = new Map<string, DeepReadonly<Task>>();

  constructor(options: TaskWritesOptions) {
    this.#options = options;
  }

  /**
   * Decides on the current Task and writes the status that the decision has. After a conflict, decides again on the new state. `attempt`: read
   * the Task from the API if the cache does not show this attempt yet.
   *
   * **Errors**: rejects if the write fails for another reason than a conflict.
   */
  async update<T extends { readonly status?: TaskStatus }>(
    uid: string,
    attempt: number,
    decide: (task: DeepReadonly<Task> | undefined) => T,
  ): Promise<TaskUpdate<T>> {
    let task = this.#latest(uid);
    if (task !== undefined && attempt > (task.status?.attempt ?? 0)) task = await this.#refetch(task);
    for (let conflicts = 0; conflicts < maxConflicts; conflicts++) {
      const decision = decide(task);
      if (task === undefined || decision.status === undefined) return { decision, task, isWritten: false };
      try {
        const written = await this.#write(task, decision.status);
        this.#written.set(uid, written);
        return { decision, task: written, isWritten: true };
      } catch (error) {
        if (isNotFound(error)) task = undefined;
        else if (isConflict(error)) task = await this.#refetch(task);
        else throw error;
      }
    }
    throw new RobotsError("TooManyConflicts", `task ${uid}: ${maxConflicts} conflicting writes`);
  }

  /** Handles a Task as the cache shows it now. */
  taskChanged(task: DeepReadonly<Task>): void {
    const uid = task.metadata.uid ?? "";
    const own = this.#written.get(uid);
    if (own !== undefined && !isLater(own.metadata.resourceVersion, task.metadata.resourceVersion)) this.#written.delete(uid);
  }

  #latest(uid: string): DeepReadonly<Task> | undefined {
    const { cache, namespace } = this.#options;
    const cached = cache.list(Task, { namespace, index: ["uid", uid] })[0];
    const own = this.#written.get(uid);
    return own !== undefined && isLater(own.metadata.resourceVersion, cached?.metadata.resourceVersion) ? own : cached;
  }

  async #refetch(task: DeepReadonly<Task>): Promise<DeepReadonly<Task> | undefined> {
    const { client, namespace } = this.#options;
    const fresh = await ignoreNotFound(client.get(Task, { namespace, name: task.metadata.name ?? "" }));
    return fresh?.metadata.uid === task.metadata.uid ? fresh : undefined;
  }

  async #write(task: DeepReadonly<Task>, status: TaskStatus): Promise<DeepReadonly<Task>> {
    const { client, namespace, fieldManager } = this.#options;
    const { name = "", resourceVersion } = task.metadata;
    return await client.applyStatus(Task, { metadata: { name, namespace, resourceVersion }, status }, { fieldManager });
  }
}
