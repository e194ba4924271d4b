import { type DeepReadonly, ignoreNotFound } from "@keelson/api-machinery";
import { Node, type NodeObject } from "@keelson/api-machinery/kinds";
import { formatTime } from "@keelson/api-machinery/time";
import { type ControllerDefinition, defineController } from "@keelson/controller";

type NodeTaint = NonNullable<NonNullable<NodeObject["spec"]>["taints"]>[number];

/** The taints of conditions that are `True`. */
const taintOfCondition: Readonly<Record<string, string>> = {
  MemoryPressure: "node.kubernetes.io/memory-pressure",
  DiskPressure: "node.kubernetes.io/disk-pressure",
  PIDPressure: "node.kubernetes.io/pid-pressure",
  NetworkUnavailable: "node.kubernetes.io/network-unavailable",
};

/** The taints that a node should have: those of its conditions, and whatever others it has. Undefined if it has them. */
function desiredTaints({ spec, status }: DeepReadonly<NodeObject>, now: number): readonly NodeTaint[] | undefined {
  const taints: readonly DeepReadonly<NodeTaint>[] = spec?.taints ?? [];
  const wanted = (status?.conditions ?? []).flatMap(({ type, status: value }) => {
    const key = Object.hasOwn(taintOfCondition, type) ? taintOfCondition[type] : undefined;
    return key === undefined || value !== "True" ? [] : [key];
  });
  const isOurs = ({ key, effect }: DeepReadonly<NodeTaint>): boolean =>
    effect === "NoSchedule" && Object.values(taintOfCondition).includes(key);
  const kept = taints.filter((taint) => !isOurs(taint) || wanted.includes(taint.key));
  const missing = wanted.filter((key) => !kept.some((taint) => isOurs(taint) && taint.key === key));
  if (kept.length === taints.length && missing.length === 0) return undefined;
  const added = missing.map((key) => ({ key, effect: "NoSchedule" as const, timeAdded: formatTime(now) }));
  return [...kept.map((taint) => ({ ...taint })), ...added];
}

/**
 * Taints nodes by their conditions, so that no Pods are scheduled to a node that would reject them, as kube-controller-manager does
 * (`TaintNodesByCondition`). A node has no permission to change its taints.
 */
export const nodeTaintController: ControllerDefinition = defineController({
  name: "node-taints",
  for: Node,
  async reconcile(request, { cache, client, clock, signal }) {
    const node = cache.get(Node, request);
    const taints = node && desiredTaints(node, clock.now());
    if (node === undefined || taints === undefined) return undefined;
    // The list is replaced as a whole: a concurrent change of another taint must not be lost.
    const { resourceVersion } = node.metadata;
    const body = { metadata: { resourceVersion }, spec: { taints } };
    await ignoreNotFound(client.patch(Node, request, { type: "merge", body }, { signal }));
    return undefined;
  },
});
