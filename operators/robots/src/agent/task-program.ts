import { defaultPath, type Isolation, type ProgramSpec } from "@keelson/execution";
import type { TaskIsolation } from "./policy/robot-policy.ts";
import type { TaskOrder } from "./task-order.ts";

/** Identifies a program of this robot. */
export interface ProgramName {
  readonly uid: string;
  readonly attempt: number;
  /** Number of the program within its attempt, from 0. */
  readonly run: number;
}

/** Name of an attempt's program in the execution driver. `run` counts the restarts on this robot. */
export function programId(uid: string, attempt: number, run = 0): string {
  return run === 0 ? `${uid}-${attempt}` : `${uid}-${attempt}.${run}`;
}

/** The program of an attempt. `dir` is the task's folder. */
export function programSpecOf({ uid, attempt, run }: ProgramName, order: TaskOrder, dir: string): ProgramSpec {
  return {
    id: programId(uid, attempt, run),
    command: order.command,
    env: { PATH: defaultPath, HOME: dir, ...order.env },
    cwd: dir,
    ...(order.user !== undefined && { user: order.user }),
    ...(order.limits !== undefined && { limits: order.limits }),
    ...(order.timeoutMs !== undefined && { timeoutMs: order.timeoutMs }),
    ...(order.killGraceMs !== undefined && { killGraceMs: order.killGraceMs }),
    ...(order.isolation !== undefined && { isolation: isolationOf(order.isolation, dir) }),
    metadata: { uid, attempt: String(attempt), run: String(run) },
  };
}

function isolationOf({ network, paths, writablePaths }: TaskIsolation, dir: string): Isolation {
  return {
    network,
    binds: [
      ...paths.map((path) => ({ source: path, target: path })),
      ...[...writablePaths, dir].map((path) => ({ source: path, target: path, isWritable: true })),
    ],
  };
}
