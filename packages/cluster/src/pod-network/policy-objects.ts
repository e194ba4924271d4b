import { isIPv4 } from "node:net";
import type { DeepReadonly } from "@keelson/api-machinery";
import type { NetworkPolicyObject, PodObject } from "@keelson/api-machinery/kinds";
import type { NetworkNames } from "./network-names.ts";

/** A Pod with a network namespace, as far as policies are concerned. */
export interface PolicyPod {
  readonly namespace: string;
  /** An IPv4 address of the Pod network. */
  readonly address: string;
  readonly labels: Readonly<Record<string, string>>;
  /** The named ports of its containers. */
  readonly ports: readonly { readonly name: string; readonly protocol: string; readonly port: number }[];
}

/** A NetworkPolicy as far as its rules are concerned. */
export interface PolicySpec {
  readonly namespace: string;
  readonly name: string;
  readonly spec: DeepReadonly<NonNullable<NetworkPolicyObject["spec"]>>;
}

/** The maximum number of rules, peers, exceptions and ports of a policy. */
export const maxPolicySize = 5_000;

/** A Pod that may have a network namespace. */
export interface KnownPod {
  readonly uid: string;
  /** Its address is `""` until its status shows it. */
  readonly pod: PolicyPod;
}

/** A followed NetworkPolicy. */
export interface KnownPolicy extends PolicySpec {
  readonly uid: string;
  /** Changes with the spec. */
  readonly version: string;
  /** The number of its rules, peers, exceptions and ports. More than {@link maxPolicySize}: {@link spec} has no allowances. */
  readonly size: number;
}

/** Reduces a NetworkPolicy to what rules depend on. */
export function knownPolicyOf({ metadata, spec = {} }: DeepReadonly<NetworkPolicyObject>): KnownPolicy {
  const { namespace = "", name = "", uid = "", generation, resourceVersion = "" } = metadata;
  const size = sizeOf(spec);
  const policy = { namespace, name, uid, version: `${generation ?? resourceVersion}`, size, spec };
  return size > maxPolicySize ? withoutAllowances(policy) : policy;
}

/** Whether two observations of a policy result in the same rules. */
export function isSamePolicy(before: KnownPolicy, after: KnownPolicy): boolean {
  return before.uid === after.uid && before.version === after.version;
}

/** A policy that isolates the same Pods in the same directions, and allows nothing. */
export function withoutAllowances<T extends PolicySpec>(policy: T): T {
  const { podSelector } = policy.spec;
  return { ...policy, spec: { ...(podSelector !== undefined && { podSelector }), policyTypes: policyTypesOf(policy.spec) } };
}

/** The directions in which a policy isolates its Pods. An empty list is the same as an absent one. */
export function policyTypesOf({ policyTypes = [], egress = [] }: PolicySpec["spec"]): readonly ("Ingress" | "Egress")[] {
  if (policyTypes.length > 0) return policyTypes;
  return egress.length > 0 ? ["Ingress", "Egress"] : ["Ingress"];
}

function sizeOf({ ingress = [], egress = [] }: PolicySpec["spec"]): number {
  const rules = [
    ...ingress.map(({ from, ports }) => ({ peers: from, ports })),
    ...egress.map(({ to, ports }) => ({ peers: to, ports })),
  ];
  let size = rules.length;
  for (const { peers = [], ports = [] } of rules) {
    size += peers.length + ports.length;
    for (const { ipBlock } of peers) size += ipBlock?.except?.length ?? 0;
  }
  return size;
}

/** A Pod that may have a network namespace. Undefined if it has none or has ended. */
export function knownPodOf(
  pod: DeepReadonly<PodObject>,
  names: Pick<NetworkNames, "pods" | "nodeAddress">,
): KnownPod | undefined {
  const { podIP = "", phase } = pod.status ?? {};
  if (pod.spec.hostNetwork === true || phase === "Succeeded" || phase === "Failed") return undefined;
  if (podIP === names.nodeAddress) return undefined;
  // `pods` is a /16.
  const isOwn = isIPv4(podIP) && podIP.split(".", 2).join(".") === names.pods.split(".", 2).join(".");
  return { uid: pod.metadata.uid ?? "", pod: policyPodOf(pod, isOwn ? podIP : "") };
}

/** Reduces a Pod with an address to what rules depend on. */
export function policyPodOf({ metadata, spec }: DeepReadonly<PodObject>, address: string): PolicyPod {
  const containers = [...spec.containers, ...(spec.initContainers ?? [])];
  const ports = containers.flatMap(({ ports: own = [] }) =>
    own.flatMap(({ name, protocol = "TCP", containerPort }) =>
      name === undefined ? [] : [{ name, protocol, port: containerPort }],
    ),
  );
  return { namespace: metadata.namespace ?? "", address, labels: metadata.labels ?? {}, ports };
}
