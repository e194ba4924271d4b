import {
  ClusterRole,
  ClusterRoleBinding,
  CustomResourceDefinition,
  type CustomResourceDefinitionObject,
  type DeepReadonly,
  isConditionTrue,
  Namespace,
  type ResourceDefinition,
  ServiceAccount,
} from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import type { Operator } from "@keelson/controller";

/** The namespace of Keelson's own service accounts. */
export const systemNamespace = "keelson-system";

/** The user that an operator's controllers act as: a service account of their own. */
export function operatorUser(operator: Operator): { readonly username: string; readonly groups: readonly string[] } {
  return {
    username: `system:serviceaccount:${systemNamespace}:${operator.name}`,
    groups: ["system:serviceaccounts", `system:serviceaccounts:${systemNamespace}`, "system:authenticated"],
  };
}

/**
 * Applies what an operator needs before it can run: its CustomResourceDefinitions (and waits until they are served), its service
 * account, and a ClusterRole with its rules and no others.
 */
export async function prepareOperator(admin: Client, operator: Operator, signal: AbortSignal): Promise<void> {
  const write = { fieldManager: "keelson", signal };
  const name = `keelson:${operator.name}`;
  await Promise.all(
    operator.resources.map((resource) =>
      admin.apply(
        CustomResourceDefinition,
        { spec: resource.crd.spec as CustomResourceDefinitionObject["spec"], metadata: { name: crdName(resource) } },
        write,
      ),
    ),
  );
  await admin.apply(Namespace, { metadata: { name: systemNamespace } }, write);
  await admin.apply(ServiceAccount, { metadata: { name: operator.name, namespace: systemNamespace } }, write);
  await admin.apply(ClusterRole, { metadata: { name }, rules: [...operator.rules, ...(operator.localRules ?? [])] }, write);
  await admin.apply(
    ClusterRoleBinding,
    {
      metadata: { name },
      roleRef: { apiGroup: ClusterRole.group, kind: "ClusterRole", name },
      subjects: [{ kind: "ServiceAccount", name: operator.name, namespace: systemNamespace }],
    },
    write,
  );
  for (const resource of operator.resources) await established(admin, crdName(resource), signal);
}

const crdName = (resource: ResourceDefinition): string => `${resource.plural}.${resource.group}`;

async function established(admin: Client, name: string, signal: AbortSignal): Promise<void> {
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
