import type { DeepReadonly } from "@keelson/api-machinery";
import type { Cache } from "@keelson/controller";
import { Task } from "../api/task.ts";
import { type Load, noLoad } from "./placement.ts";
import { parseResourceRequest } from "./resource-request.ts";

interface Assumption {
  readonly task: DeepReadonly<Task>;
  readonly robot: string;
}

/**
 * Load of every robot: from the Tasks that the cache shows bound, and from those that were bound a moment ago and that the cache
 * does not show yet. Without the latter, Tasks that are placed in a row would all see the same idle robot.
 */
export class RobotLoads {
  /** By uid of the Task, the oldest first. */
  readonly #assumed = new Map<string, Assumption>();
  /** The same assumptions: uids by robot. */
  readonly #byRobot = new Map<string, Set<string>>();

  /** Load of a robot from all Tasks but the one with the uid `except`. */
  loadOf(cache: Cache, namespace: string | undefined, robot: string, except: string): Load {
    let load = noLoad;
    for (const task of cache.list(Task, { namespace, index: ["robot", robot] })) {
      if (task.metadata.uid !== except) load = add(load, task);
    }
    // One more than needed, so that those of robots that no longer exist go away too.
    const [oldest] = this.#assumed.keys();
    if (oldest !== undefined) this.#confirmed(oldest, cache);
    for (const uid of this.#byRobot.get(keyOf(namespace, robot)) ?? []) {
      const current = this.#confirmed(uid, cache);
      const task = this.#assumed.get(uid)?.task;
      if (task !== undefined && uid !== except && current?.spec.targetRobot !== robot) load = add(load, task);
    }
    return load;
  }

  /** Records that a Task is being bound to a robot. Returns a function that undoes it. */
  assume(task: DeepReadonly<Task>, robot: string): () => void {
    const { uid = "", namespace } = task.metadata;
    this.#forget(uid);
    this.#assumed.set(uid, { task, robot });
    const key = keyOf(namespace, robot);
    const same = this.#byRobot.get(key);
    if (same === undefined) this.#byRobot.set(key, new Set([uid]));
    else same.add(uid);
    return () => this.#forget(uid);
  }

  /** Forgets an assumption that the cache has confirmed or that no longer holds. Returns the Task in the cache. */
  #confirmed(uid: string, cache: Cache): DeepReadonly<Task> | undefined {
    const assumption = this.#assumed.get(uid);
    if (assumption === undefined) return undefined;
    const { task } = assumption;
    const current = cache.get(Task, { namespace: task.metadata.namespace, name: task.metadata.name ?? "" });
    if (current === undefined || current.metadata.uid !== uid || robotOf(current) !== robotOf(task)) this.#forget(uid);
    return current;
  }

  #forget(uid: string): void {
    const assumption = this.#assumed.get(uid);
    if (assumption === undefined) return;
    this.#assumed.delete(uid);
    const key = keyOf(assumption.task.metadata.namespace, assumption.robot);
    const same = this.#byRobot.get(key);
    same?.delete(uid);
    if (same?.size === 0) this.#byRobot.delete(key);
  }
}

const keyOf = (namespace: string | undefined, robot: string): string => `${namespace ?? ""}/${robot}`;

/** Load of a robot from these Tasks. */
export function loadOfTasks(tasks: readonly DeepReadonly<Task>[], robot: string): Load {
  return tasks.reduce((load, task) => (task.spec.targetRobot === robot ? add(load, task) : load), noLoad);
}

const robotOf = (task: DeepReadonly<Task>): string => task.spec.targetRobot ?? "";

function add(load: Load, task: DeepReadonly<Task>): Load {
  const state = task.status?.state;
  if (state === "completed" || state === "failed") return load;
  // A task that was moved names its last robot until it has another one.
  if (state === "pending" && task.status?.movedFrom === task.spec.targetRobot) return load;
  const { cpu, cpuMhz, memoryBytes } = parseResourceRequest(task.spec.resources);
  return {
    tasks: load.tasks + 1,
    cpu: load.cpu + cpu,
    cpuMhz: load.cpuMhz + cpuMhz,
    memoryBytes: load.memoryBytes + memoryBytes,
  };
}
