import { HostPorts } from "./host-ports.ts";
import type { NodeObject } from "@keelson/api-machinery/kinds";
import { addAmounts, type Amounts, amountsOf, exclusionOf, podRequests } from "@keelson/api-machinery/scheduling";
import type { CachedPod } from "../workload/pod-state.ts";
import type { Cached } from "../workload/write.ts";

/** A node with the resources that its Pods use. */
export interface NodeLoad {
  readonly node: Cached<NodeObject>;
  readonly allocatable: Amounts;
  readonly requested: Map<string, bigint>;
  pods: number;
  readonly hostPorts: HostPorts;
}

/** Why a Pod does not fit a node; `isPermanent` if removing other Pods would not help. */
export interface Misfit {
  readonly reason: string;
  readonly isPermanent: boolean;
}

/** Sums up the Pods on a node. */
export function loadOf(node: Cached<NodeObject>, pods: readonly CachedPod[]): NodeLoad {
  const load: NodeLoad = {
    node,
    allocatable: amountsOf(node.status?.allocatable ?? node.status?.capacity ?? {}),
    requested: new Map(),
    pods: 0,
    hostPorts: new HostPorts(),
  };
  for (const pod of pods) addPod(load, pod);
  return load;
}

/** Requests by Pod: a preemption examines each Pod of a node for each pending one. */
const requestsByPod = new WeakMap<CachedPod, Amounts>();

function requestsOf(pod: CachedPod): Amounts {
  const known = requestsByPod.get(pod);
  if (known !== undefined) return known;
  const requests = podRequests(pod);
  // An object from the cache never changes.
  if (Object.isFrozen(pod)) requestsByPod.set(pod, requests);
  return requests;
}

/** Adds a Pod to the load of a node. */
export function addPod(load: NodeLoad, pod: CachedPod): void {
  addAmounts(load.requested, requestsOf(pod));
  load.pods += 1;
  load.hostPorts.add(pod);
}

/** All reasons why the Pod does not fit the node; empty if it fits. */
export function misfitsOf(pod: CachedPod, load: NodeLoad): readonly Misfit[] {
  const exclusion = exclusionOf(pod, load.node);
  if (exclusion !== undefined) return [{ reason: exclusion, isPermanent: true }];
  if (load.hostPorts.hasConflict(pod)) {
    return [{ reason: "node(s) didn't have free ports for the requested pod ports", isPermanent: false }];
  }
  return shortagesOf(pod, load);
}

function shortagesOf(pod: CachedPod, { allocatable, requested, pods }: NodeLoad): readonly Misfit[] {
  const misfits: Misfit[] = [];
  const slots = allocatable.get("pods");
  if (slots !== undefined && BigInt(pods + 1) * 1_000_000_000n > slots) {
    misfits.push({ reason: "Too many pods", isPermanent: slots === 0n });
  }
  for (const [resource, amount] of requestsOf(pod)) {
    const all = allocatable.get(resource) ?? 0n;
    if (amount === 0n || amount + (requested.get(resource) ?? 0n) <= all) continue;
    misfits.push({ reason: `Insufficient ${resource}`, isPermanent: amount > all });
  }
  return misfits;
}

/** The average free share of cpu and memory, 0 to 1, once the Pod runs there. The node with the highest share wins. */
export function freeShare(pod: CachedPod, { allocatable, requested }: NodeLoad): number {
  const requests = requestsOf(pod);
  const shares = ["cpu", "memory"].map((resource) => {
    const all = allocatable.get(resource) ?? 0n;
    const used = (requested.get(resource) ?? 0n) + (requests.get(resource) ?? 0n);
    return all <= 0n ? 0 : Number(all - used) / Number(all);
  });
  return shares.reduce((sum, share) => sum + share, 0) / shares.length;
}
