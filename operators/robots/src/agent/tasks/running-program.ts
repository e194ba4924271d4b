import type { Driver, Program } from "@keelson/execution";
import type { HeldTask } from "../held-task.ts";
import { programId } from "./task-program.ts";

/** The running program of an attempt of a task, or why there is none. */
export function runningProgram(
  driver: Pick<Driver, "get">,
  task: HeldTask | undefined,
  { taskUid, attempt }: { readonly taskUid: string; readonly attempt: number },
): Program | string {
  if (task === undefined || task.attempt !== attempt) return "the robot does not have this attempt of the task";
  const program = driver.get(programId(taskUid, task.programAttempt ?? attempt, task.run));
  return task.phase === "running" && program?.state.kind === "running" ? program : "the program is not running";
}

/** The program of an attempt of a task that runs or has ended and is kept with its output, or why there is none. */
export function keptProgram(
  driver: Pick<Driver, "get">,
  task: HeldTask | undefined,
  { taskUid, attempt }: { readonly taskUid: string; readonly attempt: number },
): Program | string {
  if (task === undefined || task.attempt !== attempt) return "the robot does not have this attempt of the task";
  const program = driver.get(programId(taskUid, task.programAttempt ?? attempt, task.run));
  return program ?? "the robot has no output of the task: its program has not started yet, or its files were removed";
}
