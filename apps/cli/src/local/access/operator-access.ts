import { type DeepReadonly, isConditionTrue, type ResourceDefinition } from "@keelson/api-machinery";
import {
  ClusterRole,
  ClusterRoleBinding,
  CustomResourceDefinition,
  type CustomResourceDefinitionObject,
  Namespace,
  Role,
  RoleBinding,
  ServiceAccount,
} from "@keelson/api-machinery/kinds";
import type { Client } from "@keelson/client";
import { clusterRulesOf, leaderElectionRules, leaseNameOf, type Operator } from "@keelson/operator";
import { systemNamespace } from "./operator-user.ts";

/** Creates the namespace of the operators' service accounts. */
export async function ensureSystemNamespace(admin: Client, signal: AbortSignal): Promise<void> {
  await admin.apply(Namespace, { metadata: { name: systemNamespace } }, { fieldManager: "keelson", signal });
}

/**
 * Installs an operator's prerequisites: its CustomResourceDefinitions (waiting until they are established), and in the system namespace
 * its service account, a least-privilege ClusterRole and a Role for its leader-election Lease.
 */
export async function prepareOperator(admin: Client, operator: Operator, signal: AbortSignal): Promise<void> {
  const write = { fieldManager: "keelson", signal };
  const name = `keelson:${operator.name}`;
  const crds = operator.resources.map(async (resource) => {
    await admin.apply(CustomResourceDefinition, resource.crd, write);
    await waitUntilEstablished(admin, crdName(resource), signal);
  });
  const subjects = [{ kind: "ServiceAccount" as const, name: operator.name, namespace: systemNamespace }];
  const roleRef = { apiGroup: ClusterRole.group, name };
  const rules = [...clusterRulesOf(operator), ...(operator.localRules ?? [])];
  const metadata = { name, namespace: systemNamespace };
  await Promise.all([
    ...crds,
    admin.apply(ServiceAccount, { metadata: { name: operator.name, namespace: systemNamespace } }, write),
    admin.apply(ClusterRole, { metadata: { name }, rules }, write),
    admin.apply(ClusterRoleBinding, { metadata: { name }, roleRef: { ...roleRef, kind: "ClusterRole" }, subjects }, write),
    admin.apply(Role, { metadata, rules: leaderElectionRules(leaseNameOf(operator)) }, write),
    admin.apply(RoleBinding, { metadata, roleRef: { ...roleRef, kind: "Role" }, subjects }, write),
  ]);
}

const crdName = (resource: ResourceDefinition): string => `${resource.plural}.${resource.group}`;

async function waitUntilEstablished(admin: Client, name: string, signal: AbortSignal): Promise<void> {
  const isEstablished = ({ status }: DeepReadonly<CustomResourceDefinitionObject>): boolean =>
    isConditionTrue(status?.conditions, "Established");
  const current = await admin.get(CustomResourceDefinition, { name }, { signal });
  if (isEstablished(current)) return;
  const watch = await admin.watch(CustomResourceDefinition, {
    fieldSelector: `metadata.name=${name}`,
    resourceVersion: current.metadata.resourceVersion ?? "0",
    signal,
  });
  for await (const event of watch) if (event.type === "MODIFIED" && isEstablished(event.object)) break;
  watch.close();
}
