import type { PolicyRule } from "@keelson/api-machinery/kinds";
import { EventsEvent, Lease, Secret } from "@keelson/api-machinery/kinds";
import type { Operator } from "./operator.ts";

/** Rules of the runtime in the whole cluster: create events, and patch their series. */
const eventRule: PolicyRule = { apiGroups: [EventsEvent.group], resources: [EventsEvent.plural], verbs: ["create", "patch"] };

/** The rules of an operator's ClusterRole: its own and those of the runtime. */
export function clusterRulesOf(
  operator: Pick<Operator, "rules"> & Partial<Pick<Operator, "name" | "webhooks">>,
): readonly PolicyRule[] {
  return [...operator.rules, eventRule, ...webhookConfigurationRules(operator)];
}

/** The rules to register webhooks: only configurations with the operator's name. */
function webhookConfigurationRules({
  name = "",
  webhooks = [],
}: Partial<Pick<Operator, "name" | "webhooks">>): readonly PolicyRule[] {
  const types = new Set(webhooks.flatMap((each) => each.webhooks.map(({ type }) => type)));
  return [...types].map((type) => ({
    apiGroups: ["admissionregistration.k8s.io"],
    resources: [`${type}webhookconfigurations`],
    resourceNames: [webhookNameOf({ name })],
    verbs: ["get", "list", "watch", "create", "patch"],
  }));
}

/**
 * The rules of a Role for the certificates of webhooks behind a Service, in its namespace. Empty without webhooks. RBAC cannot restrict
 * `create` to a name.
 */
export function webhookCertificateRules(operator: Pick<Operator, "name" | "webhooks">): readonly PolicyRule[] {
  if ((operator.webhooks ?? []).length === 0) return [];
  const secrets = { apiGroups: [Secret.group], resources: [Secret.plural] };
  return [
    { ...secrets, verbs: ["create"] },
    { ...secrets, resourceNames: [webhookSecretNameOf(operator)], verbs: ["get", "list", "watch", "update"] },
  ];
}

/** Name of the Secret with the certificates of webhooks behind a Service. */
export function webhookSecretNameOf(operator: Pick<Operator, "name">): string {
  return `${webhookNameOf(operator)}-certificates`;
}

/** Name of an operator's webhook configurations, and of the Service in front of its webhooks. */
export function webhookNameOf(operator: Pick<Operator, "name">): string {
  return `keelson-${operator.name}`;
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
