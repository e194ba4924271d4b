import { addAmounts, amountsOf, podRequests } from "@keelson/api-machinery/scheduling";
import type { PodView } from "../pod/pod-view.ts";

/** Why a resize is not admitted. `Deferred`: it may fit later. `Infeasible`: it never fits this node. */
export interface ResizeRefusal {
  readonly reason: "Deferred" | "Infeasible";
  readonly message: string;
}

/** Nano units per unit that messages count in: CPU in thousandths, memory in bytes. */
const scales = [
  { resource: "memory", nanos: 1_000_000_000n },
  { resource: "cpu", nanos: 1_000_000n },
] as const;

/** Why a node of this capacity with these other Pods does not admit a Pod with new resources; undefined if it does. */
export function resizeRefusal(
  pod: PodView,
  others: Iterable<PodView>,
  capacity: Readonly<Record<"cpu" | "memory", string>>,
): ResizeRefusal | undefined {
  const all = amountsOf(capacity);
  const requests = podRequests({ spec: pod.spec });
  const used = new Map<string, bigint>();
  for (const other of others) addAmounts(used, podRequests({ spec: other.spec }));
  const amounts = scales.map(({ resource, nanos }) => ({
    resource,
    requested: (requests.get(resource) ?? 0n) / nanos,
    used: (used.get(resource) ?? 0n) / nanos,
    capacity: (all.get(resource) ?? 0n) / nanos,
  }));
  const impossible = amounts.find((each) => each.requested > each.capacity);
  if (impossible !== undefined) {
    const { resource, requested, capacity: limit } = impossible;
    const message = `Node didn't have enough capacity: ${resource}, requested: ${requested}, capacity: ${limit}`;
    return { reason: "Infeasible", message };
  }
  const missing = amounts.find((each) => each.requested + each.used > each.capacity);
  if (missing === undefined) return undefined;
  const detail = `requested: ${missing.requested}, used: ${missing.used}, capacity: ${missing.capacity}`;
  return { reason: "Deferred", message: `Node didn't have enough resource: ${missing.resource}, ${detail}` };
}
