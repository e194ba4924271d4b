import type { DeepReadonly, OwnerReference } from "@keelson/api-machinery";
import type { Job } from "../api/job.ts";
import { agentFinalizer } from "../api/names.ts";
import type { Robot } from "../api/robot.ts";
import type { Task } from "../api/task.ts";
import type { TaskGroup } from "../api/taskgroup.ts";

/*
 * Objects for tests of decisions, as the API server would return them.
 */

const apiVersion = "robot.k8s4r.io/v1alpha1";

/** 2026-01-01T00:00:00Z. */
export const t0 = Date.UTC(2026, 0, 1);

/** RFC 3339 time, `ms` milliseconds after {@link t0}. */
export const after = (ms: number): string => new Date(t0 + ms).toISOString();

/** A task that runs `/bin/true`. */
export const definition: TaskGroup["spec"]["tasks"][number] = {
  name: "run",
  driver: "exec",
  config: { execConfig: { command: "/bin/true" } },
};

/** A Job with the given parts of spec and status. */
export function jobOf(
  spec: Partial<Job["spec"]> = {},
  rest: { status?: Job["status"]; name?: string; uid?: string; deleting?: boolean } = {},
): DeepReadonly<Job> {
  const { name = "hello", uid = "job-1" } = rest;
  return {
    apiVersion,
    kind: "Job",
    metadata: { name, namespace: "default", uid, generation: 1, ...(rest.deleting ? { deletionTimestamp: after(0) } : {}) },
    spec: { name, taskGroups: [{ name: "workers", count: 2, tasks: [definition] }], ...spec },
    ...(rest.status ? { status: rest.status } : {}),
  };
}

/** A TaskGroup with the given parts of spec and status. */
export function groupOf(
  spec: Partial<TaskGroup["spec"]> = {},
  rest: { status?: TaskGroup["status"]; name?: string; uid?: string; owner?: Partial<OwnerReference>; deleting?: boolean } = {},
): DeepReadonly<TaskGroup> {
  const { name = "hello-workers", uid = "group-1" } = rest;
  return {
    apiVersion,
    kind: "TaskGroup",
    metadata: {
      name,
      namespace: "default",
      uid,
      generation: 1,
      ownerReferences: [{ apiVersion, kind: "Job", name: "hello", uid: "job-1", controller: true, ...rest.owner }],
      ...(rest.deleting ? { deletionTimestamp: after(0) } : {}),
    },
    spec: { jobName: "hello", groupName: "workers", count: 2, tasks: [definition], ...spec },
    ...(rest.status ? { status: rest.status } : {}),
  };
}

/** A Task of {@link definition} with the given status. */
export function taskOf(
  status?: Task["status"],
  rest: { spec?: Partial<Task["spec"]>; name?: string; uid?: string; index?: number; bound?: boolean; deleting?: boolean } = {},
): DeepReadonly<Task> {
  const { name = "hello-workers-run-0", uid = "00000000-0000-4000-8000-000000000001", index = 0 } = rest;
  return {
    apiVersion,
    kind: "Task",
    metadata: {
      name,
      namespace: "default",
      uid,
      generation: 1,
      resourceVersion: "7",
      labels: { job: "hello", taskgroup: "hello-workers", taskindex: String(index) },
      ownerReferences: [{ apiVersion, kind: "TaskGroup", name: "hello-workers", uid: "group-1", controller: true }],
      ...(rest.bound ? { finalizers: [agentFinalizer] } : {}),
      ...(rest.deleting ? { deletionTimestamp: after(0) } : {}),
    },
    spec: {
      jobName: "hello",
      taskGroupName: "hello-workers",
      robotSelector: {},
      ...definition,
      ...rest.spec,
      ...(rest.bound ? { targetRobot: "robot-001" } : {}),
    },
    ...(status ? { status } : {}),
  };
}

/** A Robot named `name`. */
export function robotOf(
  name: string,
  rest: {
    spec?: Partial<Robot["spec"]>;
    status?: Robot["status"];
    annotations?: Record<string, string>;
    deleting?: boolean;
  } = {},
): DeepReadonly<Robot> {
  return {
    apiVersion,
    kind: "Robot",
    metadata: {
      name,
      namespace: "default",
      uid: `uid-${name}`,
      generation: 1,
      ...(rest.annotations ? { annotations: rest.annotations } : {}),
      ...(rest.deleting ? { deletionTimestamp: after(0) } : {}),
    },
    spec: { robotId: name, ...rest.spec },
    status: rest.status ?? { phase: "Online" },
  };
}
