import { isNotFound } from "@keelson/api-machinery";
import { Node, Pod } from "@keelson/api-machinery/kinds";
import { type ControllerDefinition, defineController, readOf, watchOf } from "@keelson/controller";
import { isPodTerminating, type CachedPod } from "../workload/pod-state.ts";

const nodeIndex = "node";

/** Indexes Pods by node. */
const byNode = (pod: CachedPod): readonly string[] => (pod.spec.nodeName ? [pod.spec.nodeName] : []);

/** Why a Pod must be deleted without a kubelet: no node exists that would terminate it. */
export function decideLostPod(pod: CachedPod, hasNode: boolean): "node-deleted" | "never-bound" | undefined {
  if (pod.spec.nodeName) return hasNode ? undefined : "node-deleted";
  return isPodTerminating(pod) ? "never-bound" : undefined;
}

/** Deletes Pods whose node no longer exists, and terminating Pods that were never bound. */
export const podGarbageController: ControllerDefinition = defineController({
  name: "podgc",
  for: Pod,
  predicates: [({ type }) => type !== "delete"],
  reads: [readOf(Pod, { [nodeIndex]: byNode })],
  watches: [
    watchOf(
      Node,
      ({ metadata }, { cache }) =>
        cache
          .list(Pod, { index: [nodeIndex, metadata.name ?? ""] })
          .map((pod) => ({ namespace: pod.metadata.namespace, name: pod.metadata.name ?? "" })),
      [({ type }) => type === "delete"],
    ),
  ],
  async reconcile(request, { cache, client, events, signal }) {
    const pod = cache.get(Pod, request);
    if (pod === undefined) return;
    const { nodeName = "" } = pod.spec;
    const why = decideLostPod(pod, nodeName !== "" && cache.get(Node, { name: nodeName }) !== undefined);
    if (why === undefined) return;
    // The node cache may lag behind the Pod cache, so the node is confirmed to be absent.
    if (why === "node-deleted" && (await nodeExists())) return;
    const uid = pod.metadata.uid;
    try {
      await client.delete(Pod, request, {
        gracePeriodSeconds: 0,
        ...(uid === undefined ? {} : { preconditions: { uid } }),
        signal,
      });
    } catch (error) {
      if (isNotFound(error)) return;
      throw error;
    }
    if (why === "node-deleted") {
      events.event(pod, { type: "Normal", reason: "PodGC", note: `node ${nodeName} no longer exists` });
    }

    async function nodeExists(): Promise<boolean> {
      try {
        await client.get(Node, { name: nodeName }, { signal });
        return true;
      } catch (error) {
        if (isNotFound(error)) return false;
        throw error;
      }
    }
  },
});
