import type { PolicyRule } from "@keelson/api-machinery/kinds";
import { EventsEvent, Lease } from "@keelson/api-machinery/kinds";
import type { Operator } from "./operator.ts";

/** What the runtime itself needs in the whole cluster: to tell of events, and to tell of repeated ones as a series. */
const eventRule: PolicyRule = { apiGroups: [EventsEvent.group], resources: [EventsEvent.plural], verbs: ["create", "patch"] };

/** The rights that an operator needs in the whole cluster, for a ClusterRole: its own rules and those of the runtime under it. */
export function clusterRulesOf(operator: Pick<Operator, "rules">): readonly PolicyRule[] {
  return [...operator.rules, eventRule];
}

/**
 * The rights that leader election needs in the namespace of the Lease, for a Role there. Kubernetes cannot limit `create` to a
 * name; the rest is limited to this one Lease.
 */
export function leaderElectionRules(leaseName: string): readonly PolicyRule[] {
  const lease = { apiGroups: [Lease.group], resources: [Lease.plural] };
  return [
    { ...lease, verbs: ["create"] },
    { ...lease, resourceNames: [leaseName], verbs: ["get", "update"] },
  ];
}

/** Name of the Lease that one replica of an operator holds. */
export function leaseNameOf(operator: Pick<Operator, "name">): string {
  return `keelson-${operator.name}`;
}
