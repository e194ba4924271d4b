import { type DeepReadonly, isStatusError } from "@keelson/api-machinery";
import { Pod, type PodObject } from "@keelson/api-machinery/kinds";
import { selectorFromObject } from "@keelson/api-machinery/selectors";
import type { Clock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { PodSelection } from "../api/tool-actions.ts";
import { ToolError } from "./tool-error.ts";

/** Inputs of {@link choosePod}. */
export interface PodChoice {
  readonly client: Client;
  readonly namespace: string;
  readonly selection: DeepReadonly<PodSelection>;
  /** Also chooses Pods that have ended, as their logs can be read. */
  readonly allowsEnded: boolean;
  readonly giveUpAtMs: number;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** A chosen Pod. */
export interface ChosenPod {
  readonly namespace: string;
  readonly name: string;
  readonly containers: readonly string[];
}

/**
 * Waits for a running Pod of a selection: the first by name. A Pod that has ended or is being deleted is chosen only if no other is usable.
 *
 * **Errors**: a {@link ToolError} if there is none in time, or if Pods cannot be read.
 */
export async function choosePod(choice: PodChoice): Promise<ChosenPod> {
  const { giveUpAtMs, clock, signal } = choice;
  const limit = new AbortController();
  // Something that runs now is found even if no time is left.
  const timer = clock.setTimer(Math.max(giveUpAtMs - clock.now(), minLookupMs), () => limit.abort());
  try {
    return await findPod(choice, AbortSignal.any([signal, limit.signal]));
  } catch (error) {
    signal.throwIfAborted();
    if (limit.signal.aborted) throw new ToolError("PodNotFound", `${describe(choice)} is not running`, { cause: error });
    if (isStatusError(error, "Forbidden")) throw new ToolError("Forbidden", error.message, { cause: error });
    throw error;
  } finally {
    timer.cancel();
  }
}

const minLookupMs = 1_000;

async function findPod(choice: PodChoice, signal: AbortSignal): Promise<ChosenPod> {
  const { client, namespace, selection, allowsEnded } = choice;
  const scope = {
    namespace,
    ...(selection.pod === undefined
      ? { labelSelector: selectorFromObject({ matchLabels: { ...selection.labelSelector } }).toString() }
      : { fieldSelector: `metadata.name=${selection.pod}` }),
  };
  for (;;) {
    signal.throwIfAborted();
    const list = await client.list(Pod, { ...scope, signal });
    const found = list.items
      .filter((pod) => isUsable(pod, allowsEnded))
      .toSorted((a, b) => Number(isRunning(b)) - Number(isRunning(a)) || compareNames(a, b))[0];
    if (found !== undefined) return chosen(found, namespace);
    const watch = await client.watch(Pod, { ...scope, resourceVersion: list.metadata.resourceVersion ?? "", signal });
    try {
      for await (const event of watch) {
        if (event.type === "ERROR") break;
        if (event.type !== "BOOKMARK" && event.type !== "DELETED" && isUsable(event.object, allowsEnded))
          return chosen(event.object, namespace);
      }
    } finally {
      watch.close();
    }
  }
}

const compareNames = (a: DeepReadonly<PodObject>, b: DeepReadonly<PodObject>): number =>
  (a.metadata.name ?? "") < (b.metadata.name ?? "") ? -1 : 1;

const isRunning = ({ metadata, status }: DeepReadonly<PodObject>): boolean =>
  status?.phase === "Running" && metadata.deletionTimestamp === undefined;

function isUsable(pod: DeepReadonly<PodObject>, allowsEnded: boolean): boolean {
  const phase = pod.status?.phase;
  return allowsEnded ? phase === "Running" || phase === "Succeeded" || phase === "Failed" : isRunning(pod);
}

const chosen = ({ metadata, spec }: DeepReadonly<PodObject>, namespace: string): ChosenPod => ({
  namespace,
  name: metadata.name ?? "",
  containers: spec.containers.map(({ name }) => name),
});

function describe({ selection: { pod, labelSelector = {} } }: PodChoice): string {
  if (pod !== undefined) return `Pod ${pod}`;
  const labels = Object.entries(labelSelector).map(([key, value]) => `${key}=${value}`);
  return `a Pod with ${labels.join(",")}`;
}
