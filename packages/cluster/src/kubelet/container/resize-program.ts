import { ExecutionError, type Program } from "@keelson/execution";
import type { PodEvent } from "../pod/machine/pod-state.ts";
import type { PodRecords } from "../pod/pod-records.ts";
import type { Resources } from "../resources/pod-resources.ts";
import { limitsOf } from "./container-limits.ts";

/** The program whose resources change. */
export interface ResizeTarget {
  readonly records: PodRecords;
  readonly uid: string;
  readonly name: string;
  readonly attempt: number;
  readonly program: Program | undefined;
}

/**
 * Gives a running program other resources. The allocation is on disk before they take effect, and their effect before this resolves.
 * Never rejects.
 */
export async function resizeProgram(target: ResizeTarget, resources: Resources): Promise<PodEvent> {
  const problem = await problemOf(target, resources);
  const { name, attempt } = target;
  return { kind: "resized", name, attempt, resources, ...(problem !== undefined && { problem }) };
}

async function problemOf(target: ResizeTarget, resources: Resources): Promise<string | undefined> {
  const { records, uid, name, attempt, program } = target;
  try {
    await records.write(uid);
    await program?.setLimits(limitsOf(resources));
    const actuated = { ...records.get(uid)?.actuated, [name]: { attempt, resources } };
    await records.update(uid, { actuated });
    return undefined;
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    if (!(error instanceof ExecutionError) || error.code !== "InUse") return `container ${JSON.stringify(name)}: ${message}`;
    return `cannot decrease memory limits: container ${JSON.stringify(name)}: ${message}`;
  }
}
