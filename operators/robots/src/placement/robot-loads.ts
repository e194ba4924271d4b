import type { DeepReadonly } from "@keelson/api-machinery";
import type { Cache } from "@keelson/controller";
import type { AssignedDevices } from "../api/device.ts";
import { isPerRobot, type Job } from "../api/job.ts";
import { Task } from "../api/task.ts";
import { childName, unambiguousChildName } from "../work/child-name.ts";
import { isBound, type RobotUse, useOf } from "./robot-use.ts";
import { type Copies, onlyCopy } from "./spread.ts";

interface Assumption {
  readonly task: DeepReadonly<Task>;
  readonly robot: string;
  readonly devices: AssignedDevices;
}

/**
 * Uses of every robot: by the Tasks that the cache shows, and by those that were bound a moment ago and that the cache does not show
 * yet. Without the latter, Tasks that are placed in a row would all see the same idle robot.
 */
export class RobotLoads {
  /** By uid of the Task, the oldest first. */
  readonly #assumed = new Map<string, Assumption>();
  /** The same assumptions: uids by robot. */
  readonly #byRobot = new Map<string, Set<string>>();

  /** The uses of a robot by all Tasks but the one with the uid `except`. */
  usesOf(cache: Cache, namespace: string | undefined, robot: string, except: string): readonly RobotUse[] {
    const uses: RobotUse[] = [];
    const seen = new Set([except]);
    const see = (task: DeepReadonly<Task>): void => {
      const { uid = "" } = task.metadata;
      const kind = seen.has(uid) ? undefined : useOf(task, robot);
      seen.add(uid);
      // A Task that is being bound uses the robot that it gets instead.
      if (kind !== undefined && !(kind === "reserved" && this.#confirmed(uid, cache))) uses.push({ task, kind });
    };
    for (const index of ["robot", "displaced", "reserved"]) {
      for (const task of cache.list(Task, { namespace, index: [index, robot] })) see(task);
    }
    // One more than needed, so that those of robots that no longer exist go away too.
    const [oldest] = this.#assumed.keys();
    if (oldest !== undefined) this.#confirmed(oldest, cache);
    for (const uid of this.#byRobot.get(keyOf(namespace, robot)) ?? []) {
      const assumption = uid === except ? undefined : this.#confirmed(uid, cache);
      if (assumption !== undefined) uses.push({ task: assumption.task, kind: "bound", devices: assumption.devices });
    }
    return uses;
  }

  /** The copies of a Task, with the robots that they use. */
  copiesOf(cache: Cache, task: DeepReadonly<Task>, job: DeepReadonly<Job> | undefined): Copies {
    const { jobName } = task.spec;
    if (task.spec.spreads === undefined || jobName === undefined) return onlyCopy;
    const tasks = cache.list(Task, { namespace: task.metadata.namespace, index: ["job", jobName] });
    return copiesAmong(task, job, tasks, ({ metadata }) => {
      return this.#confirmed(metadata.uid ?? "", cache)?.robot;
    });
  }

  /** Records that a Task is being bound to a robot, with these of its devices. Returns a function that undoes it. */
  assume(task: DeepReadonly<Task>, robot: string, devices: AssignedDevices = []): () => void {
    const { uid = "", namespace } = task.metadata;
    this.#forget(uid);
    this.#assumed.set(uid, { task, robot, devices });
    const key = keyOf(namespace, robot);
    const same = this.#byRobot.get(key);
    if (same === undefined) this.#byRobot.set(key, new Set([uid]));
    else same.add(uid);
    return () => this.#forget(uid);
  }

  /** The assumption about a Task. Forgets it if the cache has confirmed it or it no longer holds. */
  #confirmed(uid: string, cache: Cache): Assumption | undefined {
    const assumption = this.#assumed.get(uid);
    if (assumption === undefined) return undefined;
    const { task, robot } = assumption;
    const current = cache.get(Task, { namespace: task.metadata.namespace, name: task.metadata.name ?? "" });
    const holds =
      current?.metadata.uid === uid &&
      robotOf(current) === robotOf(task) &&
      current.status?.attempt === task.status?.attempt &&
      useOf(current, robot) !== "bound";
    if (!holds) this.#forget(uid);
    return this.#assumed.get(uid);
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

/**
 * The copies of a Task among these Tasks. `job` is its Job, if it exists. `assumedRobot` is the robot that a Task is being bound to, if any.
 */
export function copiesAmong(
  task: DeepReadonly<Task>,
  job: DeepReadonly<Job> | undefined,
  tasks: readonly DeepReadonly<Task>[],
  assumedRobot: (task: DeepReadonly<Task>) => string | undefined = () => undefined,
): Copies {
  const { jobName, taskGroupName, name } = task.spec;
  if (taskGroupName === undefined) return onlyCopy;
  const byRobot = new Map<string, number>();
  let total = 1;
  for (const other of tasks) {
    const { spec, metadata } = other;
    const isCopy = spec.name === name && spec.taskGroupName === taskGroupName && spec.jobName === jobName;
    // A planned Task has neither a uid nor a name.
    const isSame = other === task || (metadata.uid !== undefined && metadata.uid === task.metadata.uid);
    if (!isCopy || isSame) continue;
    total++;
    const robot = assumedRobot(other) ?? (isBound(other) ? robotOf(other) : "");
    if (robot !== "") byRobot.set(robot, (byRobot.get(robot) ?? 0) + 1);
  }
  return { total: desiredCount(taskGroupName, job) ?? total, byRobot };
}

/** Number of copies that the Job wants. Undefined for one copy per robot, or if the Job does not define the group. */
function desiredCount(taskGroupName: string, job: DeepReadonly<Job> | undefined): number | undefined {
  if (job === undefined || isPerRobot(job.spec.type)) return undefined;
  const jobName = job.metadata.name ?? "";
  const group = job.spec.taskGroups.find(
    ({ name }) => childName(jobName, name) === taskGroupName || unambiguousChildName(jobName, name) === taskGroupName,
  );
  return group?.count;
}

const robotOf = (task: DeepReadonly<Task>): string => task.spec.targetRobot ?? "";
