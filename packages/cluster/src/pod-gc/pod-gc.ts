import { isNotFound } from "@keelson/api-machinery";
import { Node, Pod } from "@keelson/api-machinery/kinds";
import { type ControllerDefinition, defineController, readOf, watchOf } from "@keelson/controller";
import { isPodTerminating, type SeenPod } from "../workload/pod-state.ts";

const nodeIndex = "node";

/** Index of Pods by their node. */
const byNode = (pod: SeenPod): readonly string[] => (pod.spec.nodeName ? [pod.spec.nodeName] : []);

/** Why a Pod is to be deleted without waiting for a node, if it is: nobody is there who would end it. */
export function decideLostPod(pod: SeenPod, hasNode: boolean): "node-gone" | "never-placed" | undefined {
  if (pod.spec.nodeName) return hasNode ? undefined : "node-gone";
  return isPodTerminating(pod) ? "never-placed" : undefined;
}

/** Deletes Pods whose node is gone, and Pods that are deleted before they got one. */
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
    // The cache of nodes may be behind that of Pods: a node that is there after all keeps its Pods.
    if (why === "node-gone" && (await isThere())) return;
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
    if (why === "node-gone") {
      events.event(pod, { type: "Normal", reason: "PodGC", note: `the node ${nodeName} does not exist any more` });
    }

    async function isThere(): Promise<boolean> {
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
