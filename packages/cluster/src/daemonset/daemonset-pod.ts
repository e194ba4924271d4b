import type { DaemonSetObject, NodeObject, PodSpec } from "@keelson/api-machinery/kinds";
import { isSelected, isTolerated, type Taint } from "@keelson/api-machinery/scheduling";
import { type NewPod, podFromTemplate } from "../workload/pod-from-template.ts";
import type { CachedPod } from "../workload/pod-state.ts";
import { revisionLabel } from "../workload/revisions.ts";
import type { Cached } from "../workload/write.ts";

/** A DaemonSet from the cache. */
export type CachedDaemonSet = Cached<DaemonSetObject>;
/** A Node from the cache. */
export type CachedNode = Cached<NodeObject>;

const generationLabel = "pod-template-generation";
const generationAnnotation = "deprecated.daemonset.template.generation";

/** Tolerations of every daemon Pod (daemon_controller_utils.go `AddOrUpdateDaemonPodTolerations`). */
const tolerations = [
  ["not-ready", "NoExecute"],
  ["unreachable", "NoExecute"],
  ["disk-pressure", "NoSchedule"],
  ["memory-pressure", "NoSchedule"],
  ["pid-pressure", "NoSchedule"],
  ["unschedulable", "NoSchedule"],
].map(([key = "", effect = ""]) => ({ key: `node.kubernetes.io/${key}`, operator: "Exists", effect }));

interface NodeAffinity {
  requiredDuringSchedulingIgnoredDuringExecution?: {
    nodeSelectorTerms?: { matchExpressions?: unknown[]; matchFields?: { key: string; operator: string; values: string[] }[] }[];
  };
}

/** The Pod of a DaemonSet on a node, from its current template. `hash` is the hash of its revision. */
export function daemonPod(set: CachedDaemonSet, nodeName: string, hash: string): NewPod {
  const pod = podFromTemplate(set, set.spec.template);
  const generation = set.metadata.annotations?.[generationAnnotation];
  const labels = {
    ...pod.metadata.labels,
    [revisionLabel]: hash,
    ...(generation === undefined ? {} : { [generationLabel]: generation }),
  };
  const network = pod.spec.hostNetwork
    ? [{ key: "node.kubernetes.io/network-unavailable", operator: "Exists", effect: "NoSchedule" }]
    : [];
  const spec = {
    ...pod.spec,
    affinity: pinnedTo(nodeName, pod.spec.affinity),
    tolerations: [...(pod.spec.tolerations ?? []), ...tolerations, ...network],
  } as PodSpec;
  return { ...pod, metadata: { ...pod.metadata, labels }, spec };
}

/** Restricts an affinity to one node, which the scheduler then binds the Pod to. */
function pinnedTo(nodeName: string, affinity: unknown): object {
  const { nodeAffinity, ...others } = (affinity ?? {}) as { nodeAffinity?: NodeAffinity };
  const matchFields = [{ key: "metadata.name", operator: "In", values: [nodeName] }];
  const terms = nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms ?? [{}];
  const nodeSelectorTerms = terms.map((term) => ({ ...term, matchFields }));
  return {
    ...others,
    nodeAffinity: { ...nodeAffinity, requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } },
  };
}

/** The node that a daemon Pod runs on, or is pinned to. */
export function nodeOf({ spec }: CachedPod): string | undefined {
  if (spec.nodeName) return spec.nodeName;
  const { nodeAffinity } = (spec.affinity ?? {}) as { readonly nodeAffinity?: NodeAffinity };
  const [term] = nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms ?? [];
  return term?.matchFields?.find(({ key }) => key === "metadata.name")?.values[0];
}

/** Whether a DaemonSet's Pod should run on a node, and whether one that already runs there should stay. */
export function fitOf(set: CachedDaemonSet, node: CachedNode): { readonly shouldRun: boolean; readonly shouldStay: boolean } {
  const { name = "" } = node.metadata;
  const { spec } = daemonPod(set, name, "") as Pick<CachedPod, "spec">;
  const isForNode =
    (spec.nodeName === undefined || spec.nodeName === "" || spec.nodeName === name) && isSelected({ spec }, node);
  if (!isForNode) return { shouldRun: false, shouldStay: false };
  const taints: readonly Taint[] = [
    ...(node.spec?.taints ?? []),
    ...(node.spec?.unschedulable ? [{ key: "node.kubernetes.io/unschedulable", effect: "NoSchedule" }] : []),
  ];
  const blocking = taints.filter((taint) => taint.effect !== "PreferNoSchedule" && !isTolerated({ spec }, taint));
  return { shouldRun: blocking.length === 0, shouldStay: !blocking.some(({ effect }) => effect === "NoExecute") };
}
