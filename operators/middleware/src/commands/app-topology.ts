import type { DeepReadonly } from "@keelson/api-machinery";
import type { App } from "../api/app.ts";
import type { Group } from "../api/group.ts";
import { replicationLag, type PodFigures } from "../monitoring/replication-lag.ts";

/** A Pod of an App. */
export interface TopologyPod {
  readonly name: string;
  readonly component: string;
  readonly group: string;
  /** Missing for Pods without an agent. */
  readonly role?: string;
  readonly ready: boolean;
  /** Version that the program reports. */
  readonly version?: string;
  /** How far a replica is behind the primary. Undefined if that is unknown. */
  readonly lagBytes?: number;
}

/** The state of an App and of its Pods. */
export interface AppTopology {
  readonly name: string;
  readonly namespace: string;
  readonly phase: string;
  readonly message: string;
  readonly plugin: string;
  /** Version that the programs run. */
  readonly version?: string;
  /** Changes of a primary in progress, such as `failover from a-0 to a-1`. */
  readonly transitions: readonly string[];
  readonly pods: readonly TopologyPod[];
}

/** Describes an App. `figures`: what the agents of Pods report, by the name of the Pod. */
export function appTopology(
  { metadata, spec, status }: DeepReadonly<App>,
  groups: readonly DeepReadonly<Group>[],
  figures: ReadonlyMap<string, PodFigures>,
): AppTopology {
  return {
    name: metadata.name ?? "",
    namespace: metadata.namespace ?? "",
    phase: status?.phase ?? "Pending",
    message: status?.message ?? "",
    plugin: spec.plugin.name,
    ...(status?.version !== undefined && { version: status.version }),
    transitions: groups.flatMap(transitionsOf),
    pods: groups.flatMap((group) => podsOf(group, figures)),
  };
}

function transitionsOf({ status }: DeepReadonly<Group>): string[] {
  const { failover, switchover, fencing, restarting } = status ?? {};
  return [
    ...(failover === undefined
      ? []
      : [`failover from ${failover.from} to ${failover.to}${failover.refusal === undefined ? "" : `: ${failover.refusal}`}`]),
    ...(switchover === undefined ? [] : [`switchover from ${switchover.from} to ${switchover.to}`]),
    ...(fencing === undefined ? [] : [`terminating ${fencing.pod}, which does not respond`]),
    ...(restarting === undefined ? [] : [`restarting ${restarting.pod}`]),
  ];
}

function podsOf({ metadata, spec, status }: DeepReadonly<Group>, figures: ReadonlyMap<string, PodFigures>): TopologyPod[] {
  const primary = figures.get(status?.primary?.pod ?? "");
  return (status?.pods ?? []).map(({ name, role, ready = false, version }) => {
    const lagBytes = replicationLag(figures.get(name), primary);
    return {
      name,
      component: spec.componentRef.name,
      group: metadata.name ?? "",
      ...(role !== undefined && { role }),
      ready,
      ...(version !== undefined && { version }),
      ...(lagBytes !== undefined && { lagBytes }),
    };
  });
}
