import type { DeepReadonly } from "@keelson/api-machinery";
import type { Robot } from "../../api/robot.ts";
import type { Task } from "../../api/task.ts";
import { identityOf, mayGetWork } from "../../identity/robot-identity.ts";

/** Why a request about a running task cannot be carried out. */
export interface TaskProblem {
  readonly reason: string;
  readonly message: string;
}

/** Why a robot cannot be asked to do something to the running program of a task. `what` is in the messages: `signals`. */
export function taskProblem(
  name: string,
  task: DeepReadonly<Task> | undefined,
  robot: DeepReadonly<Robot> | undefined,
  { feature, what }: { readonly feature: string; readonly what: string },
): TaskProblem | undefined {
  if (task === undefined) return { reason: "TaskNotFound", message: `task ${name} not found in this namespace` };
  const state = task.status?.state || "pending";
  if (task.metadata.deletionTimestamp !== undefined || state !== "running") {
    const now = task.metadata.deletionTimestamp === undefined ? state : "being deleted";
    return { reason: "TaskNotRunning", message: `task ${name} is ${now}; only a running task gets ${what}` };
  }
  return robotProblem(task.spec.targetRobot ?? "", robot, { feature, what });
}

/** Why a robot cannot be asked to do something for a task of it. `what` is in the messages: `signals`. */
export function robotProblem(
  id: string,
  robot: DeepReadonly<Robot> | undefined,
  { feature, what }: { readonly feature: string; readonly what: string },
): TaskProblem | undefined {
  if (robot?.status?.phase !== "Online" || !mayGetWork(robot)) {
    return { reason: "RobotNotOnline", message: `robot ${id} is not online; try again when it has returned` };
  }
  if (identityOf(robot) === undefined) {
    const advice = `join it with a one-time token (keelson robots token create --robot ${id})`;
    return { reason: "RobotHasNoKey", message: `robot ${id} has no key, so ${what} cannot be signed for it; ${advice}` };
  }
  if (robot.status.agentFeatures?.includes(feature) === true) return undefined;
  return { reason: "AgentTooOld", message: `the agent of robot ${id} does not support ${what}; update it` };
}
