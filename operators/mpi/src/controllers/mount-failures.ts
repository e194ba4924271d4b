import type { DeepReadonly } from "@keelson/api-machinery";
import { Event, type PodObject } from "@keelson/api-machinery/kinds";
import type { ReconcileContext } from "@keelson/controller";
import { isCreating } from "./pod-trouble.ts";

/** Maximum number of Pods whose events are looked up in one reconcile. */
const maxMountChecks = 3;

/** Time that a Pod usually takes to be created. Its events are looked up afterwards. */
const usualCreationMs = 2000;

/** Looks up the last `FailedMount` event of the first Pods that take long to be created. One reason is enough for the status. */
export async function findMountFailures(
  pods: readonly DeepReadonly<PodObject>[],
  { client, clock, signal }: ReconcileContext,
): Promise<(pod: DeepReadonly<PodObject>) => string | undefined> {
  const failures = new Map<string, string>();
  const isLate = ({ metadata }: DeepReadonly<PodObject>): boolean =>
    clock.now() - Date.parse(metadata.creationTimestamp ?? "") > usualCreationMs;
  for (const pod of pods.filter((each) => isCreating(each) && isLate(each)).slice(0, maxMountChecks)) {
    const { uid = "", namespace } = pod.metadata;
    const fieldSelector = `involvedObject.uid=${uid},reason=FailedMount`;
    const { items } = await client.list(Event, { namespace, fieldSelector, signal });
    const message = items.at(-1)?.message;
    if (message !== undefined && message !== "") failures.set(uid, message);
  }
  return (pod) => failures.get(pod.metadata.uid ?? "");
}
