import { type DeepReadonly, isNotFound, isStatusError, type ObjectKey } from "@keelson/api-machinery";
import type { PodObject } from "@keelson/api-machinery/kinds";
import type { Client } from "@keelson/client";
import { mainContainerStatus } from "../../controllers/main-container.ts";
import { type LineTransform, namedLines, type RankSelection, rankLines, writeInStep } from "./log-lines.ts";

/** Whether a Pod's program has started. Before that it has no log. */
export function hasStarted(pod: DeepReadonly<PodObject>): boolean {
  const state = mainContainerStatus(pod)?.state;
  return state?.running !== undefined || state?.terminated !== undefined;
}

/** Options of {@link copyLog}. */
export interface CopyOptions {
  /** The container that takes part in the job. */
  readonly container: string;
  /** Continue until the program has ended. */
  readonly follow: boolean;
  /** Prefix every line with the Pod's name. */
  readonly named: boolean;
  /** Selects lines of labelled output. Default: print the output as it is. */
  readonly ranks?: RankSelection;
  readonly out: NodeJS.WritableStream;
  readonly signal: AbortSignal;
}

/** Copies the log of a Pod's program. Returns false if the program has not started or the Pod does not exist. */
export async function copyLog(
  client: Client,
  pod: ObjectKey,
  { container, follow, named, ranks, out, signal }: CopyOptions,
): Promise<boolean> {
  const unchanged: LineTransform = { push: (chunk) => chunk, end: () => Buffer.alloc(0) };
  const lines = named ? namedLines(pod.name) : ranks === undefined ? unchanged : rankLines(ranks);
  try {
    const log = await client.podLog(pod, { container, follow, signal });
    for await (const chunk of log) await writeInStep(out, lines.push(chunk), signal);
  } catch (error) {
    // A container that has not started has no log: Kubernetes returns 400.
    if (isNotFound(error) || isStatusError(error, "BadRequest")) return false;
    throw error;
  }
  await writeInStep(out, lines.end(), signal);
  return true;
}
