import type { DeepReadonly } from "@keelson/api-machinery";
import type { Cache } from "@keelson/controller";
import { Task } from "../api/task.ts";
import { amountsOf, type Load, noLoad } from "./placement.ts";

/**
 * What Tasks take of the robots: those that the cache shows bound, and those that were bound a moment ago, whose writes the
 * cache does not show yet. Without the latter, Tasks that are placed in a row would all see the same idle robot.
 */
export interface RobotLoads {
  loadOf(cache: Cache, namespace: string | undefined, robot: string, except: string): Load;
  /** Notes that a Task (by uid) is being bound. Returns the way to take that back. */
  assume(task: DeepReadonly<Task>, robot: string): () => void;
}

/** Creates {@link RobotLoads}, shared by all reconciles of Tasks. */
export function createRobotLoads(): RobotLoads {
  const assumed = new Map<string, { readonly task: DeepReadonly<Task>; readonly robot: string }>();
  return {
    loadOf(cache, namespace, robot, except) {
      let load = noLoad;
      for (const task of cache.list(Task, { namespace, index: ["robot", robot] })) {
        if (task.metadata.uid !== except) load = add(load, task);
      }
      for (const [uid, assumption] of assumed) {
        const { task } = assumption;
        const seen = cache.get(Task, { namespace: task.metadata.namespace, name: task.metadata.name ?? "" });
        if (
          seen === undefined ||
          seen.metadata.uid !== uid ||
          (seen.spec.targetRobot ?? "") !== (task.spec.targetRobot ?? "")
        ) {
          assumed.delete(uid);
        } else if (
          assumption.robot === robot &&
          uid !== except &&
          task.metadata.namespace === namespace &&
          seen.spec.targetRobot !== robot
        ) {
          load = add(load, task);
        }
      }
      return load;
    },
    assume(task, robot) {
      const uid = task.metadata.uid ?? "";
      assumed.set(uid, { task, robot });
      return () => void assumed.delete(uid);
    },
  };
}

function add(load: Load, task: DeepReadonly<Task>): Load {
  const state = task.status?.state;
  if (state === "completed" || state === "failed") return load;
  const { cpu, memoryBytes } = amountsOf(task.spec.resources);
  return { tasks: load.tasks + 1, cpu: load.cpu + cpu, memoryBytes: load.memoryBytes + memoryBytes };
}
