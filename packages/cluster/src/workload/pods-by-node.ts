import { Pod } from "@keelson/api-machinery/kinds";
import { type Cache, readOf, type Request } from "@keelson/controller";
import type { CachedPod } from "./pod-state.ts";

const nodeIndex = "node";

/** Indexes Pods by node. */
const byNode = (pod: CachedPod): readonly string[] => (pod.spec.nodeName ? [pod.spec.nodeName] : []);

/** The read that {@link podRequestsOnNode} needs. */
export const readPodsByNode = () => readOf(Pod, { [nodeIndex]: byNode });

/** A request for each Pod that is bound to a node. */
export function podRequestsOnNode(cache: Pick<Cache, "list">, nodeName: string): readonly Request[] {
  return cache
    .list(Pod, { index: [nodeIndex, nodeName] })
    .map(({ metadata }) => ({ namespace: metadata.namespace, name: metadata.name ?? "" }));
}
