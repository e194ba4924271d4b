import type { KubernetesObject, ResourceType } from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import type { Operator } from "@keelson/controller";

/** The namespace of Keelson's own service accounts. */
export const systemNamespace = "keelson-system";

const rbac = { group: "rbac.authorization.k8s.io", version: "v1", scope: "Cluster" } as const;
const clusterRoles: ResourceType = { ...rbac, kind: "ClusterRole", plural: "clusterroles" };
const clusterRoleBindings: ResourceType = { ...rbac, kind: "ClusterRoleBinding", plural: "clusterrolebindings" };
const namespaces: ResourceType = { group: "", version: "v1", kind: "Namespace", plural: "namespaces", scope: "Cluster" };
const serviceAccounts: ResourceType = {
  group: "",
  version: "v1",
  kind: "ServiceAccount",
  plural: "serviceaccounts",
  scope: "Namespaced",
};
const definitions: ResourceType<CustomResourceDefinition> = {
  group: "apiextensions.k8s.io",
  version: "v1",
  kind: "CustomResourceDefinition",
  plural: "customresourcedefinitions",
  scope: "Cluster",
};

interface CustomResourceDefinition extends KubernetesObject {
  spec?: unknown;
  status?: { conditions?: { type: string; status: string }[] };
}

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
      admin.apply(definitions, resource.crd as unknown as Parameters<typeof admin.apply<CustomResourceDefinition>>[1], write),
    ),
  );
  await admin.apply(namespaces, { metadata: { name: systemNamespace } }, write);
  await admin.apply(serviceAccounts, { metadata: { name: operator.name, namespace: systemNamespace } }, write);
  await admin.apply(
    clusterRoles,
    { metadata: { name }, rules: [...operator.rules, ...(operator.localRules ?? [])] } as never,
    write,
  );
  await admin.apply(
    clusterRoleBindings,
    {
      metadata: { name },
      roleRef: { apiGroup: rbac.group, kind: "ClusterRole", name },
      subjects: [{ kind: "ServiceAccount", name: operator.name, namespace: systemNamespace }],
    } as never,
    write,
  );
  for (const resource of operator.resources) await established(admin, `${resource.plural}.${resource.group}`, signal);
}

async function established(admin: Client, name: string, signal: AbortSignal): Promise<void> {
  const isEstablished = (definition: {
    readonly status?: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
  }): boolean =>
    definition.status?.conditions?.some((condition) => condition.type === "Established" && condition.status === "True") ??
    false;
  const current = await admin.get(definitions, { name }, { signal });
  if (isEstablished(current)) return;
  const watch = await admin.watch(definitions, {
    fieldSelector: `metadata.name=${name}`,
    resourceVersion: current.metadata.resourceVersion ?? "0",
    signal,
  });
  for await (const event of watch) if (event.type === "MODIFIED" && isEstablished(event.object)) break;
  watch.close();
}
