import { defaultPath, type Isolation, type ProgramSpec } from "@keelson/execution";
import type { containerProgram } from "../containers/container-program.ts";
import { devicesMetadata } from "../devices/device-claims.ts";
import type { TaskIsolation } from "../policy/robot-policy.ts";
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

/** Where a program runs. */
export interface ProgramPlace {
  /** The task's directory. */
  readonly dir: string;
  /** Variables with the ports of the program. Default: none. */
  readonly ports?: Readonly<Record<string, string>>;
  /** Paths of devices that an isolated program can see. Default: none. */
  readonly devices?: readonly string[];
  /** The container that the program is. Default: none. */
  readonly container?: ReturnType<typeof containerProgram>;
}

/** The program of an attempt. */
export function programSpecOf(
  { uid, attempt, run }: ProgramName,
  order: TaskOrder,
  { dir, devices = [], ports = {}, container }: ProgramPlace,
): ProgramSpec {
  const own = (order.devices ?? []).flatMap(({ ids }) => ids);
  return {
    id: programId(uid, attempt, run),
    command: order.command,
    // Containers have those of their image.
    env: { ...(container === undefined && { PATH: defaultPath, HOME: dir }), ...order.env, ...ports },
    cwd: dir,
    ...(order.user !== undefined && { user: order.user }),
    ...(order.limits !== undefined && { limits: order.limits }),
    ...(order.timeoutMs !== undefined && { timeoutMs: order.timeoutMs }),
    ...(order.killGraceMs !== undefined && { killGraceMs: order.killGraceMs }),
    ...(order.isolation !== undefined && { isolation: isolationOf(order.isolation, dir, devices) }),
    ...container,
    metadata: {
      ...{ uid, attempt: String(attempt), run: String(run) },
      ...(order.lease !== undefined && { lease: JSON.stringify(order.lease) }),
      ...(own.length > 0 && { [devicesMetadata]: own.join(" ") }),
    },
  };
}

function isolationOf({ network, paths, writablePaths }: TaskIsolation, dir: string, devices: readonly string[]): Isolation {
  return {
    network,
    ...(devices.length > 0 && { devices }),
    binds: [
      ...paths.map((path) => ({ source: path, target: path })),
      ...[...writablePaths, dir].map((path) => ({ source: path, target: path, isWritable: true })),
    ],
  };
}
