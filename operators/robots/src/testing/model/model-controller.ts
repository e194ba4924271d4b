import type { DeepReadonly, KubernetesObject, Stored } from "@keelson/api-machinery";
import type { Cache, Change } from "@keelson/controller";
import { Robot } from "../../api/robot.ts";
import { Task } from "../../api/task.ts";
import { taskReads } from "../../controllers/indexes.ts";
import { taskWatches } from "../../controllers/tasks/task-watches.ts";
import type { Simulation } from "./simulation.ts";

/** What a model controller needs. */
export interface ModelControllerOptions {
  readonly simulation: Simulation;
  /** Maximum lag of the cache. */
  readonly maxLagMs: number;
  /** Reconciles a Task. Returns the time after which it is due again. */
  readonly reconcile: (task: DeepReadonly<Task>) => number | undefined;
}

/** The cache and the work queue of the task controller: a Task is reconciled only if a real watch, or its own decision, asks for it. */
export class ModelController {
  readonly #options: ModelControllerOptions;
  readonly #tasks = new Map<string, DeepReadonly<Task>>();
  readonly #robots = new Map<string, DeepReadonly<Robot>>();
  #deliveredAtMs = 0;
  /** Changes that the cache does not show yet, and Tasks in the queue. */
  #pending = 0;

  constructor(options: ModelControllerOptions) {
    this.#options = options;
  }

  /** Whether nothing is left to do before something changes or the time of a decision comes. */
  get isIdle(): boolean {
    return this.#pending === 0;
  }

  /** The Tasks as the cache shows them. */
  get tasks(): readonly DeepReadonly<Task>[] {
    return [...this.#tasks.values()];
  }

  /** Handles a write. The cache shows it later, in the order of the writes. */
  written(uid: string, task: DeepReadonly<Task> | undefined): void {
    const { simulation, maxLagMs } = this.#options;
    this.#deliveredAtMs = Math.max(this.#deliveredAtMs, simulation.nowMs + simulation.between(0, maxLagMs));
    this.#later(this.#deliveredAtMs - simulation.nowMs, () => {
      const old = this.#tasks.get(uid);
      if (task === undefined) this.#tasks.delete(uid);
      else this.#tasks.set(uid, task);
      const object = task ?? old;
      if (object === undefined) return;
      if (task !== undefined) this.#enqueue(uid);
      const type = task === undefined ? "delete" : old === undefined ? "create" : "update";
      this.#wake(Task.kind, { type, object, ...(old === undefined ? {} : { old }) });
    });
  }

  /** Handles a Robot that appeared or changed. */
  robotChanged(object: DeepReadonly<Robot>): void {
    const name = object.metadata.name ?? "";
    const old = this.#robots.get(name);
    this.#robots.set(name, object);
    this.#wake(Robot.kind, { type: old === undefined ? "create" : "update", object, ...(old === undefined ? {} : { old }) });
  }

  #wake(kind: string, change: Change<Task> | Change<Robot>): void {
    const { cache } = this;
    // Watches of many kinds are in one list; each gets objects of its own kind.
    const known = change as unknown as Change<KubernetesObject>;
    for (const { type, predicates = [], map } of taskWatches) {
      if (type.kind !== kind || !predicates.every((passes) => passes(known))) continue;
      for (const { name } of map(known.object as Stored<KubernetesObject>, { cache })) {
        const task = this.tasks.find(({ metadata }) => metadata.name === name);
        if (task !== undefined) this.#enqueue(task.metadata.uid ?? "");
      }
    }
  }

  #enqueue(uid: string): void {
    this.#later(this.#options.simulation.between(0, 500), () => this.#reconcile(uid));
  }

  #reconcile(uid: string): void {
    const task = this.#tasks.get(uid);
    const dueMs = task === undefined ? undefined : this.#options.reconcile(task);
    if (dueMs !== undefined) this.#options.simulation.after(dueMs, () => this.#reconcile(uid));
  }

  #later(delayMs: number, work: () => void): void {
    this.#pending++;
    this.#options.simulation.after(delayMs, () => {
      this.#pending--;
      work();
    });
  }

  /** The cache, for decisions. It ignores namespaces. */
  get cache(): Cache {
    const { indexes = {} } = taskReads;
    return {
      list: (_type: unknown, { index: [name, value] }: { readonly index: readonly [string, string] }) =>
        this.tasks.filter((task) => indexes[name]?.(task as unknown as Stored<KubernetesObject>).includes(value)),
      get: (_type: unknown, { name }: { readonly name: string }) => this.tasks.find(({ metadata }) => metadata.name === name),
    } as unknown as Cache;
  }
}
