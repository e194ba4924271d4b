import { applyAsServer } from "../apply-as-server.ts";
import { frontProxyUser, type Pki } from "../auth/certificates/pki.ts";
import type { Handle } from "../endpoints/outcome.ts";

const namespace = "kube-system";
const name = "extension-apiserver-authentication";
const role = "extension-apiserver-authentication-reader";

/**
 * Writes the ConfigMap from which extension API servers learn whose certificates to trust, and the Role and RoleBinding to read it, as
 * kube-apiserver does.
 */
export async function publishAuthenticationConfig(
  handle: Handle,
  { authority, frontProxyAuthority }: Pick<Pki, "authority" | "frontProxyAuthority">,
): Promise<void> {
  await applyAsServer(handle, `/api/v1/namespaces/${namespace}/configmaps/${name}`, {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name, namespace },
    data: {
      "client-ca-file": authority.certificate,
      "requestheader-allowed-names": JSON.stringify([frontProxyUser]),
      "requestheader-client-ca-file": frontProxyAuthority.certificate,
      "requestheader-extra-headers-prefix": JSON.stringify(["X-Remote-Extra-"]),
      "requestheader-group-headers": JSON.stringify(["X-Remote-Group"]),
      "requestheader-uid-headers": JSON.stringify(["X-Remote-Uid"]),
      "requestheader-username-headers": JSON.stringify(["X-Remote-User"]),
    },
  });
  const rbac = `/apis/rbac.authorization.k8s.io/v1/namespaces/${namespace}`;
  const metadata = { namespace, labels: { "kubernetes.io/bootstrapping": "rbac-defaults" } };
  const apiVersion = "rbac.authorization.k8s.io/v1";
  await applyAsServer(handle, `${rbac}/roles/${role}`, {
    apiVersion,
    kind: "Role",
    metadata: { name: role, ...metadata },
    rules: [{ apiGroups: [""], resources: ["configmaps"], resourceNames: [name], verbs: ["get", "list", "watch"] }],
  });
  const subjects = ["system:kube-controller-manager", "system:kube-scheduler"];
  await applyAsServer(handle, `${rbac}/rolebindings/system::${role}`, {
    apiVersion,
    kind: "RoleBinding",
    metadata: { name: `system::${role}`, ...metadata },
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: role },
    subjects: subjects.map((user) => ({ apiGroup: "rbac.authorization.k8s.io", kind: "User", name: user })),
  });
}
