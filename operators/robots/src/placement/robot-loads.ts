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
  readonly #assumed = new Map<string, Assumption>();

  /** Load of a robot from all Tasks but the one with the uid `except`. */
  loadOf(cache: Cache, namespace: string | undefined, robot: string, except: string): Load {
    let load = noLoad;
    for (const task of cache.list(Task, { namespace, index: ["robot", robot] })) {
      if (task.metadata.uid !== except) load = add(load, task);
    }
    for (const [uid, assumption] of this.#assumed) {
      const { task } = assumption;
      const current = cache.get(Task, { namespace: task.metadata.namespace, name: task.metadata.name ?? "" });
      if (current === undefined || current.metadata.uid !== uid || robotOf(current) !== robotOf(task)) {
        this.#assumed.delete(uid);
      } else if (assumption.robot === robot && uid !== except && task.metadata.namespace === namespace) {
        if (current.spec.targetRobot !== robot) load = add(load, task);
      }
    }
    return load;
  }

  /** Records that a Task is being bound to a robot. Returns a function that undoes it. */
  assume(task: DeepReadonly<Task>, robot: string): () => void {
    const uid = task.metadata.uid ?? "";
    this.#assumed.set(uid, { task, robot });
    return () => void this.#assumed.delete(uid);
  }
}

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
