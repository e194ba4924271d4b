import { type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import type { Task } from "../../api/task.ts";

type TaskStatus = NonNullable<Task["status"]>;

/** A write on an object that has changed in the meantime. */
export const conflict = Symbol("conflict");

/**
 * Tasks with optimistic concurrency and with the field ownership of server-side apply: a field that its only owner no longer applies is
 * removed. Status conditions are owned by type.
 */
export class TaskStore {
  readonly #tasks = new Map<string, DeepReadonly<Task>>();
  readonly #owners = new Map<string, Map<string, Set<string>>>();
  readonly #history: { readonly atMs: number; readonly tasks: ReadonlyMap<string, DeepReadonly<Task>> }[] = [];
  #version = 0;

  /** Called after each write, without a Task if it was removed. */
  onWrite: (uid: string, task: DeepReadonly<Task> | undefined) => void = () => {};

  /** The Tasks as a cache that lags shows them. */
  at(atMs: number): ReadonlyMap<string, DeepReadonly<Task>> {
    return this.#history.findLast((entry) => entry.atMs <= atMs)?.tasks ?? new Map();
  }

  get(uid: string): DeepReadonly<Task> | undefined {
    return this.#tasks.get(uid);
  }

  list(): readonly DeepReadonly<Task>[] {
    return [...this.#tasks.values()];
  }

  put(task: DeepReadonly<Task>, atMs: number): DeepReadonly<Task> {
    const stored = { ...task, metadata: { ...task.metadata, resourceVersion: String(++this.#version) } };
    this.#tasks.set(task.metadata.uid ?? "", stored);
    this.#history.push({ atMs, tasks: new Map(this.#tasks) });
    if (this.#history.length > 200) this.#history.shift();
    this.onWrite(task.metadata.uid ?? "", stored);
    return stored;
  }

  /** Removes a Task. */
  remove(uid: string, atMs: number): void {
    this.#tasks.delete(uid);
    this.#history.push({ atMs, tasks: new Map(this.#tasks) });
    this.onWrite(uid, undefined);
  }

  /** Replaces the spec if the Task is as it was read. */
  bind(read: DeepReadonly<Task>, robot: string, finalizer: string, atMs: number): DeepReadonly<Task> | typeof conflict {
    if (!this.#isCurrent(read)) return conflict;
    const metadata = { ...read.metadata, finalizers: [finalizer] };
    return this.put({ ...read, metadata, spec: { ...read.spec, targetRobot: robot } }, atMs);
  }

  applyStatus(
    read: DeepReadonly<Task>,
    status: TaskStatus,
    manager: string,
    atMs: number,
  ): DeepReadonly<Task> | typeof conflict {
    if (!this.#isCurrent(read)) return conflict;
    const uid = read.metadata.uid ?? "";
    const owners = this.#owners.get(uid) ?? new Map<string, Set<string>>();
    this.#owners.set(uid, owners);
    const fields = flatten(read.status ?? {});
    const applied = flatten(status);
    for (const [field, managers] of owners) {
      if (!managers.has(manager) || applied.has(field)) continue;
      managers.delete(manager);
      if (managers.size > 0) continue;
      owners.delete(field);
      fields.delete(field);
    }
    for (const [field, value] of applied) {
      if (jsonEquals(fields.get(field), value)) owners.set(field, (owners.get(field) ?? new Set()).add(manager));
      else owners.set(field, new Set([manager]));
      fields.set(field, value);
    }
    return this.put({ ...read, status: unflatten(fields) }, atMs);
  }

  #isCurrent(read: DeepReadonly<Task>): boolean {
    return this.#tasks.get(read.metadata.uid ?? "")?.metadata.resourceVersion === read.metadata.resourceVersion;
  }
}

const conditionPrefix = "conditions/";

function flatten(status: DeepReadonly<TaskStatus>): Map<string, unknown> {
  const { conditions = [], ...rest } = status;
  return new Map<string, unknown>([
    ...Object.entries(rest).filter(([, value]) => value !== undefined),
    ...conditions.map((condition) => [`${conditionPrefix}${condition.type}`, condition] as const),
  ]);
}

function unflatten(fields: ReadonlyMap<string, unknown>): TaskStatus {
  const status: Record<string, unknown> = {};
  const conditions: unknown[] = [];
  for (const [field, value] of fields) {
    if (field.startsWith(conditionPrefix)) conditions.push(value);
    else status[field] = value;
  }
  return { ...status, conditions } as TaskStatus;
}
