import type { PolicyRule } from "@keelson/api-machinery/kinds";
import { EventsEvent, Lease } from "@keelson/api-machinery/kinds";
import type { Operator } from "./operator.ts";

/** Rules of the runtime in the whole cluster: create events, and patch their series. */
const eventRule: PolicyRule = { apiGroups: [EventsEvent.group], resources: [EventsEvent.plural], verbs: ["create", "patch"] };

/** The rules of an operator's ClusterRole: its own and those of the runtime. */
export function clusterRulesOf(operator: Pick<Operator, "rules">): readonly PolicyRule[] {
  return [...operator.rules, eventRule];
}

/**
 * The rules of a Role for leader election, in the namespace of the Lease. RBAC cannot restrict `create` to a
 * name; the other verbs are restricted to this Lease.
 */
export function leaderElectionRules(leaseName: string): readonly PolicyRule[] {
  const lease = { apiGroups: [Lease.group], resources: [Lease.plural] };
  return [
    { ...lease, verbs: ["create"] },
    { ...lease, resourceNames: [leaseName], verbs: ["get", "update"] },
  ];
}

/** Name of the Lease that the leading replica of an operator holds. */
export function leaseNameOf(operator: Pick<Operator, "name">): string {
  return `keelson-${operator.name}`;
}
