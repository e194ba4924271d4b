import { HostPorts } from "../../../scheduler/host-ports.ts";
import { isCritical } from "../../eviction/storage-monitor.ts";
import { evictedReason } from "../machine/pod-state.ts";
import type { PodView } from "../pod-view.ts";
import { AllowedSysctls, isIpcSysctl, type KernelNamespace, sysctlPath } from "./sysctls.ts";

/** Why a node rejects a Pod that is bound to it. The Pod then fails, with these in its status. */
export interface Rejection {
  readonly reason: string;
  readonly message: string;
}

/** Maximum number of containers of a Pod. The work for a Pod grows faster than the number of its containers. */
const maxContainers = 256;

const defaultContext: AdmissionContext = { sysctls: new AllowedSysctls(), hasDiskPressure: () => false };

/** What a node requires of new Pods. */
export interface AdmissionContext {
  /** The kernel parameters that Pods may set. */
  readonly sysctls: AllowedSysctls;
  /** Whether the node is low on disk space. */
  readonly hasDiskPressure: () => boolean;
}

/**
 * Why a node with these other Pods, none of which has ended, rejects a Pod; undefined if it accepts it. Default:
 * Pods may set the safe kernel parameters, and the disk has space.
 */
export function rejectionOf(
  pod: PodView,
  others: Iterable<PodView>,
  { sysctls: allowed, hasDiskPressure }: AdmissionContext = defaultContext,
): Rejection | undefined {
  if (hasDiskPressure() && !isCritical(pod)) {
    return { reason: evictedReason, message: "The node had condition: [DiskPressure]. " };
  }
  const { hostNetwork, hostIPC, securityContext, containers, initContainers = [] } = pod.spec;
  const count = containers.length + initContainers.length;
  if (count > maxContainers) {
    return { reason: "TooManyContainers", message: `the Pod has ${count} containers: must be at most ${maxContainers}` };
  }
  for (const { name } of securityContext?.sysctls ?? []) {
    const sharesHosts = { net: hostNetwork === true, ipc: hostIPC === true };
    const problem = parameterProblem(name.replaceAll("/", "."), allowed, sharesHosts);
    if (problem !== undefined) return { reason: "SysctlForbidden", message: `forbidden sysctl: ${problem}` };
  }
  const ports = new HostPorts();
  for (const other of others) ports.add(other);
  if (!ports.hasConflict(pod)) return undefined;
  return {
    reason: "NodePorts",
    message: "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
  };
}

function parameterProblem(
  name: string,
  allowed: AllowedSysctls,
  sharesHosts: Readonly<Record<KernelNamespace, boolean>>,
): string | undefined {
  const namespace = allowed.namespaceOf(name);
  if (namespace === undefined) return `${JSON.stringify(name)} not allowlisted`;
  return sharesHosts[namespace] ? `${JSON.stringify(name)} not allowed with host ${namespace} enabled` : undefined;
}

/** The kernel parameters that a Pod sets in its IPC namespaces, by path below `/proc/sys`. */
export function ipcParameters({ spec }: PodView): Readonly<Record<string, string>> | undefined {
  const own = (spec.securityContext?.sysctls ?? [])
    .map(({ name, value }) => ({ name: name.replaceAll("/", "."), value }))
    .filter(({ name }) => isIpcSysctl(name));
  if (own.length === 0) return undefined;
  return Object.fromEntries(own.map(({ name, value }) => [sysctlPath(name), value]));
}
