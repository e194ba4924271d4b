import { quantityToBytes } from "@keelson/api-machinery/quantity";
import { type ContainerView, plannedContainers, type PodView } from "../pod/pod-view.ts";
import { qosClass } from "./qos-class.ts";

/** Scores of the kubelet: containers of Guaranteed Pods are killed last, those of BestEffort Pods first. */
const guaranteed = -997;
const bestEffort = 1000;

/** Priority of `system-cluster-critical`. With the `system-node-critical` class a Pod is killed last too. */
const criticalPriority = 2_000_000_000;

/**
 * How the kernel ranks the processes of a container when the node's memory runs out, as in the kubelet 1.35. Containers of Burstable Pods
 * lie between: the larger the part of the node's memory that one requests, the later it is killed. A sidecar is killed no earlier than the
 * container of its Pod that requests the least.
 */
export function oomScoreAdjustment(pod: PodView, container: ContainerView, capacityBytes: number): number {
  const { priority = 0, priorityClassName } = pod.spec;
  if (priority >= criticalPriority && priorityClassName === "system-node-critical") return guaranteed;
  const qos = qosClass(pod);
  if (qos !== "Burstable") return qos === "Guaranteed" ? guaranteed : bestEffort;
  const scoreOf = (bytes: number): number => 1000 - Math.floor((1000 * bytes) / capacityBytes);
  const requests = pod.spec.containers.map(requestedBytes);
  const isSidecar = plannedContainers(pod).some(
    ({ role, container: { name } }) => role === "sidecar" && name === container.name,
  );
  const bytes = isSidecar ? Math.max(requestedBytes(container), Math.min(...requests)) : requestedBytes(container);
  return Math.min(Math.max(scoreOf(bytes), 1000 + guaranteed), bestEffort - 1);
}

function requestedBytes({ resources }: ContainerView): number {
  const request = resources?.requests?.["memory"] ?? resources?.limits?.["memory"];
  return request === undefined ? 0 : quantityToBytes(request);
}
