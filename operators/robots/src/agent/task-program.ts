import { defaultPath, type ProgramSpec } from "@keelson/execution";
import type { TaskOrder } from "./task-order.ts";

/** Name of an attempt's program in the execution driver. */
export const programId = (uid: string, attempt: number): string => `${uid}-${attempt}`;

/** The program of an attempt. `dir` is the task's folder. */
export function programSpecOf(uid: string, attempt: number, order: TaskOrder, dir: string): ProgramSpec {
  return {
    id: programId(uid, attempt),
    command: order.command,
    env: { PATH: defaultPath, HOME: dir, ...order.env },
    cwd: dir,
    ...(order.user !== undefined && { user: order.user }),
    ...(order.limits !== undefined && { limits: order.limits }),
    ...(order.timeoutMs !== undefined && { timeoutMs: order.timeoutMs }),
    ...(order.killGraceMs !== undefined && { killGraceMs: order.killGraceMs }),
    metadata: { uid, attempt: String(attempt) },
  };
}
