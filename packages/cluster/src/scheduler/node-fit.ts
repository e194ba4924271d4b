import { isConditionTrue } from "@keelson/api-machinery";
import type { NodeObject } from "@keelson/api-machinery/kinds";
import { createSelector, type SelectorOperator } from "@keelson/api-machinery/selectors";
import type { CachedPod } from "../workload/pod-state.ts";
import type { Cached } from "../workload/write.ts";
import { add, type Amounts, amountsOf, podRequests } from "./pod-requests.ts";

/** A node with the resources that its Pods use. */
export interface NodeLoad {
  readonly node: Cached<NodeObject>;
  readonly allocatable: Amounts;
  readonly requested: Map<string, bigint>;
  pods: number;
  readonly hostPorts: Set<string>;
}

/** Why a Pod does not fit a node; `isPermanent` if removing other Pods would not help. */
export interface Misfit {
  readonly reason: string;
  readonly isPermanent: boolean;
}

interface NodeTerm {
  readonly matchExpressions?: readonly NodeRequirement[];
  readonly matchFields?: readonly NodeRequirement[];
}
interface NodeRequirement {
  readonly key: string;
  readonly operator: string;
  readonly values?: readonly string[];
}
/** A taint of a node. */
export type Taint = { readonly key: string; readonly value?: string; readonly effect: string };

const operators: Readonly<Record<string, SelectorOperator>> = {
  In: "in",
  NotIn: "notin",
  Exists: "exists",
  DoesNotExist: "!",
  Gt: "gt",
  Lt: "lt",
};

/** Sums up the Pods on a node. */
export function loadOf(node: Cached<NodeObject>, pods: readonly CachedPod[]): NodeLoad {
  const load: NodeLoad = {
    node,
    allocatable: amountsOf(node.status?.allocatable ?? node.status?.capacity ?? {}),
    requested: new Map(),
    pods: 0,
    hostPorts: new Set(),
  };
  for (const pod of pods) addPod(load, pod);
  return load;
}

/** Adds a Pod to the load of a node. */
export function addPod(load: NodeLoad, pod: CachedPod): void {
  add(load.requested, podRequests(pod));
  load.pods += 1;
  for (const port of hostPortsOf(pod)) load.hostPorts.add(port);
}

/** All reasons why the Pod does not fit the node; empty if it fits. */
export function misfitsOf(pod: CachedPod, load: NodeLoad): readonly Misfit[] {
  const permanent = (reason: string): readonly Misfit[] => [{ reason, isPermanent: true }];
  const taints: readonly Taint[] = [
    ...(load.node.spec?.taints ?? []),
    // Stands for the node lifecycle controller's taint.
    ...(isReady(load.node) ? [] : [{ key: "node.kubernetes.io/not-ready", effect: "NoSchedule" }]),
  ];
  const unschedulable = { key: "node.kubernetes.io/unschedulable", effect: "NoSchedule" };
  if (load.node.spec?.unschedulable && !isTolerated(pod, unschedulable)) return permanent("node(s) were unschedulable");
  const taint = taints.find((one) => one.effect !== "PreferNoSchedule" && !isTolerated(pod, one));
  if (taint !== undefined) return permanent(`node(s) had untolerated taint {${taint.key}: ${taint.value ?? ""}}`);
  if (!isSelected(pod, load.node)) return permanent("node(s) didn't match Pod's node affinity/selector");
  if (hostPortsOf(pod).some((port) => load.hostPorts.has(port))) {
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
  for (const [resource, amount] of podRequests(pod)) {
    const all = allocatable.get(resource) ?? 0n;
    if (amount === 0n || amount + (requested.get(resource) ?? 0n) <= all) continue;
    misfits.push({ reason: `Insufficient ${resource}`, isPermanent: amount > all });
  }
  return misfits;
}

/** The average free share of cpu and memory, 0 to 1, once the Pod runs there. The node with the highest share wins. */
export function freeShare(pod: CachedPod, { allocatable, requested }: NodeLoad): number {
  const requests = podRequests(pod);
  const shares = ["cpu", "memory"].map((resource) => {
    const all = allocatable.get(resource) ?? 0n;
    const used = (requested.get(resource) ?? 0n) + (requests.get(resource) ?? 0n);
    return all <= 0n ? 0 : Number(all - used) / Number(all);
  });
  return shares.reduce((sum, share) => sum + share, 0) / shares.length;
}

function isReady(node: Cached<NodeObject>): boolean {
  return isConditionTrue(node.status?.conditions ?? [], "Ready");
}

/** Whether a Pod tolerates a taint. */
export function isTolerated({ spec }: Pick<CachedPod, "spec">, taint: Taint): boolean {
  return (spec.tolerations ?? []).some(({ key = "", operator = "Equal", value = "", effect = "" }) => {
    if (effect !== "" && effect !== taint.effect) return false;
    if (key === "") return operator === "Exists";
    return key === taint.key && (operator === "Exists" || value === (taint.value ?? ""));
  });
}

/** Whether a node matches a Pod's node selector and required node affinity. */
export function isSelected({ spec }: Pick<CachedPod, "spec">, node: Cached<NodeObject>): boolean {
  const labels = node.metadata.labels ?? {};
  if (!Object.entries(spec.nodeSelector ?? {}).every(([key, value]) => labels[key] === value)) return false;
  const affinity = spec.affinity as
    | { nodeAffinity?: { requiredDuringSchedulingIgnoredDuringExecution?: { nodeSelectorTerms?: readonly NodeTerm[] } } }
    | undefined;
  const terms = affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms;
  // One of the terms must match; an empty term matches no node.
  return terms === undefined || terms.some((term) => holds(term, labels, { "metadata.name": node.metadata.name ?? "" }));
}

function holds(term: NodeTerm, labels: Readonly<Record<string, string>>, fields: Readonly<Record<string, string>>): boolean {
  const { matchExpressions = [], matchFields = [] } = term;
  if (matchExpressions.length + matchFields.length === 0) return false;
  return matches(matchExpressions, labels) && matches(matchFields, fields);
}

function matches(requirements: readonly NodeRequirement[], values: Readonly<Record<string, string>>): boolean {
  const known = requirements.flatMap(({ key, operator, values: wanted = [] }) => {
    const own = operators[operator];
    return own === undefined ? [] : [{ key, operator: own, values: wanted }];
  });
  return known.length === requirements.length && createSelector(known).matches(values);
}

function hostPortsOf({ spec }: CachedPod): readonly string[] {
  const ports = spec.containers.flatMap((container) => container.ports ?? []);
  return ports.flatMap(({ hostPort, containerPort, protocol = "TCP", hostIP = "" }) => {
    const port = spec.hostNetwork ? containerPort : hostPort;
    return port === undefined || port === 0 ? [] : [`${protocol} ${hostIP === "0.0.0.0" ? "" : hostIP}:${port}`];
  });
}
