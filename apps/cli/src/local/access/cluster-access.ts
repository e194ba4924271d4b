import { ClusterRole, ClusterRoleBinding, Role, RoleBinding } from "@keelson/api-machinery/kinds";
import type { Client } from "@keelson/client";
import type { ClusterUser } from "@keelson/cluster";

/** Grants a cluster component its permissions through RBAC, and no others. */
export async function grant(admin: Client, user: ClusterUser): Promise<void> {
  const write = { fieldManager: "keelson" };
  const name = `keelson:${user.username.replace(/^system:(serviceaccount:)?/, "")}`;
  const subjects = [{ apiGroup: ClusterRole.group, kind: "User" as const, name: user.username }];
  const refer = (kind: "ClusterRole" | "Role") => ({ apiGroup: ClusterRole.group, kind, name });
  const writes: Promise<unknown>[] = [
    admin.apply(ClusterRole, { metadata: { name }, rules: [...user.rules] }, write),
    admin.apply(ClusterRoleBinding, { metadata: { name }, roleRef: refer("ClusterRole"), subjects }, write),
  ];
  if (user.namespaced !== undefined) {
    const metadata = { name, namespace: user.namespaced.namespace };
    writes.push(
      admin.apply(Role, { metadata, rules: [...user.namespaced.rules] }, write),
      admin.apply(RoleBinding, { metadata, roleRef: refer("Role"), subjects }, write),
    );
  }
  await Promise.all(writes);
}
