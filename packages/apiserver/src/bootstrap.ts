import { type JsonObject, StatusError } from "@keelson/api-machinery";
import type { Handle } from "./endpoints/outcome.ts";
import { systemUser } from "./system-user.ts";

/** Namespaces created at startup. */
const systemNamespaces = ["default", "kube-system", "kube-public", "kube-node-lease"];

/** Writes the aggregated rules of a ClusterRole, like Kubernetes' clusterrole-aggregation-controller. Rejects with a `StatusError`. */
export async function applyRules(handle: Handle, name: string, rules: readonly unknown[]): Promise<void> {
  const outcome = await handle({
    method: "PATCH",
    path: `/apis/rbac.authorization.k8s.io/v1/clusterroles/${encodeURIComponent(name)}`,
    query: { fieldManager: "clusterrole-aggregation-controller", force: "true" },
    headers: { "content-type": "application/apply-patch+yaml" },
    body: { apiVersion: "rbac.authorization.k8s.io/v1", kind: "ClusterRole", metadata: { name }, rules },
    user: systemUser,
  });
  if (outcome.kind === "status") throw new StatusError(outcome.status);
}

/** Creates the system namespaces that are missing. Rejects with a `StatusError`. */
export async function createNamespaces(handle: Handle): Promise<void> {
  const outcomes = await Promise.all(
    systemNamespaces.map((name) => {
      const body: JsonObject = { apiVersion: "v1", kind: "Namespace", metadata: { name } };
      return handle({ method: "POST", path: "/api/v1/namespaces", body, user: systemUser, userAgent: "keelson" });
    }),
  );
  for (const outcome of outcomes) {
    if (outcome.kind === "status" && outcome.status.reason !== "AlreadyExists") throw new StatusError(outcome.status);
  }
}
