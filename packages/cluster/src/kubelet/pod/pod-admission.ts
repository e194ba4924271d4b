import { HostPorts } from "../../scheduler/host-ports.ts";
import type { PodView } from "./pod-view.ts";

/** Why a node rejects a Pod that is bound to it. The Pod then fails, with these in its status. */
export interface Rejection {
  readonly reason: string;
  readonly message: string;
}

/** Kernel parameters that concern only the Pod that sets them, by the namespace that they belong to. As in the kubelet 1.35. */
const safeParameters: ReadonlyMap<string, "ipc" | "net"> = new Map([
  ["kernel.shm_rmid_forced", "ipc"],
  ["net.ipv4.ip_local_port_range", "net"],
  ["net.ipv4.ip_local_reserved_ports", "net"],
  ["net.ipv4.ip_unprivileged_port_start", "net"],
  ["net.ipv4.ping_group_range", "net"],
  ["net.ipv4.tcp_fin_timeout", "net"],
  ["net.ipv4.tcp_keepalive_intvl", "net"],
  ["net.ipv4.tcp_keepalive_probes", "net"],
  ["net.ipv4.tcp_keepalive_time", "net"],
  ["net.ipv4.tcp_rmem", "net"],
  ["net.ipv4.tcp_syncookies", "net"],
  ["net.ipv4.tcp_wmem", "net"],
]);

/** Why a node with these other Pods, none of which has ended, rejects a Pod; undefined if it accepts it. */
export function rejectionOf(pod: PodView, others: Iterable<PodView>): Rejection | undefined {
  const { hostNetwork, hostIPC, securityContext } = pod.spec;
  for (const { name } of securityContext?.sysctls ?? []) {
    const problem = parameterProblem(name.replaceAll("/", "."), hostNetwork === true, hostIPC === true);
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

function parameterProblem(name: string, isHostNetwork: boolean, isHostIpc: boolean): string | undefined {
  const namespace = safeParameters.get(name);
  if (namespace === undefined) return `${JSON.stringify(name)} not allowlisted`;
  const isHosts = namespace === "net" ? isHostNetwork : isHostIpc;
  return isHosts ? `${JSON.stringify(name)} not allowed with host ${namespace} enabled` : undefined;
}

/** The kernel parameters that a Pod sets in its IPC namespaces, by path below `/proc/sys`. */
export function ipcParameters({ spec }: PodView): Readonly<Record<string, string>> | undefined {
  const own = (spec.securityContext?.sysctls ?? [])
    .map(({ name, value }) => ({ name: name.replaceAll("/", "."), value }))
    .filter(({ name }) => safeParameters.get(name) === "ipc");
  if (own.length === 0) return undefined;
  return Object.fromEntries(own.map(({ name, value }) => [name.replaceAll(".", "/"), value]));
}
