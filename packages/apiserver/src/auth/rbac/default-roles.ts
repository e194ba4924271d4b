import { type DeepReadonly, type KubernetesObject, jsonEquals } from "@keelson/api-machinery";
import type { PolicyRule } from "@keelson/api-machinery/kinds";
import { formatTime } from "@keelson/api-machinery/time";
import { type Store, storageKey } from "../../storage/store.ts";
import { rulesOf, uncoveredRules } from "./policy-rule.ts";
import { kubeletClientsGroup, mastersGroup } from "../certificates/pki.ts";
import { rbacGroup } from "./role-index.ts";

const all = ["*"];
const read = ["get", "list", "watch"];
const write = ["create", "delete", "deletecollection", "patch", "update"];

/** Resources that `edit` may write, by API group. `view` excludes those that allow acting as another identity. */
const workloads: readonly (readonly [group: string, resources: readonly string[]])[] = [
  [
    "",
    [
      "configmaps",
      "events",
      "persistentvolumeclaims",
      "pods",
      "replicationcontrollers",
      "replicationcontrollers/scale",
      "serviceaccounts",
      "services",
    ],
  ],
  [
    "apps",
    [
      "daemonsets",
      "deployments",
      "deployments/scale",
      "replicasets",
      "replicasets/scale",
      "statefulsets",
      "statefulsets/scale",
    ],
  ],
  ["autoscaling", ["horizontalpodautoscalers"]],
  ["batch", ["cronjobs", "jobs"]],
  ["networking.k8s.io", ["ingresses", "networkpolicies"]],
  ["policy", ["poddisruptionbudgets"]],
];

const viewed: readonly PolicyRule[] = [
  ...workloads.map(([group, resources]) => rule(read, [group], withStatus(resources))),
  // Read only: an endpoint may name any address, also one of another namespace (CVE-2021-25740).
  rule(read, [""], ["endpoints"]),
  rule(read, ["discovery.k8s.io"], ["endpointslices"]),
  rule(
    read,
    [""],
    ["bindings", "limitranges", "namespaces", "namespaces/status", "pods/log", "resourcequotas", "resourcequotas/status"],
  ),
];

const edited: readonly PolicyRule[] = [
  ...workloads.map(([group, resources]) => rule(write, [group], resources)),
  rule([...read, ...write], [""], ["secrets"]),
  rule([...read, ...write], ["coordination.k8s.io"], ["leases"]),
  rule(["create"], [""], ["pods/eviction", "serviceaccounts/token"]),
  rule([...read, ...write], [""], ["pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "services/proxy"]),
  rule(["impersonate"], [""], ["serviceaccounts"]),
];

const administered: readonly PolicyRule[] = [
  rule(["create"], ["authorization.k8s.io"], ["localsubjectaccessreviews"]),
  rule([...read, ...write], [rbacGroup], ["rolebindings", "roles"]),
];

/** The default ClusterRoles, by name. */
const clusterRoles: Readonly<Record<string, { rules?: readonly PolicyRule[]; aggregates?: string; aggregateTo?: string }>> = {
  "cluster-admin": { rules: [rule(all, all, all), { verbs: all, nonResourceURLs: all }] },
  admin: { aggregates: "admin" },
  edit: { aggregates: "edit", aggregateTo: "admin" },
  view: { aggregates: "view", aggregateTo: "edit" },
  "system:aggregate-to-admin": { rules: administered, aggregateTo: "admin" },
  "system:aggregate-to-edit": { rules: edited, aggregateTo: "edit" },
  "system:aggregate-to-view": { rules: viewed, aggregateTo: "view" },
  "system:auth-delegator": {
    rules: [
      rule(["create"], ["authentication.k8s.io"], ["tokenreviews"]),
      rule(["create"], ["authorization.k8s.io"], ["subjectaccessreviews"]),
    ],
  },
  "system:basic-user": {
    rules: [
      rule(["create"], ["authorization.k8s.io"], ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]),
      rule(["create"], ["authentication.k8s.io"], ["selfsubjectreviews"]),
    ],
  },
  "system:discovery": {
    rules: [
      {
        verbs: ["get"],
        nonResourceURLs: [
          "/api",
          "/api/*",
          "/apis",
          "/apis/*",
          "/healthz",
          "/livez",
          "/openapi",
          "/openapi/*",
          "/readyz",
          "/version",
          "/version/",
        ],
      },
    ],
  },
  "system:kubelet-api-admin": {
    rules: [
      rule(["get", "list", "watch"], [""], ["nodes"]),
      rule(["proxy"], [""], ["nodes"]),
      rule(
        all,
        [""],
        ["nodes/configz", "nodes/healthz", "nodes/log", "nodes/metrics", "nodes/pods", "nodes/proxy", "nodes/stats"],
      ),
    ],
  },
  "system:monitoring": {
    rules: [
      { verbs: ["get"], nonResourceURLs: ["/healthz", "/healthz/*", "/livez", "/livez/*", "/metrics", "/readyz", "/readyz/*"] },
    ],
  },
  "system:service-account-issuer-discovery": {
    rules: [
      {
        verbs: ["get"],
        nonResourceURLs: [
          "/.well-known/openid-configuration",
          "/.well-known/openid-configuration/",
          "/openid/v1/jwks",
          "/openid/v1/jwks/",
        ],
      },
    ],
  },
  "system:public-info-viewer": {
    rules: [{ verbs: ["get"], nonResourceURLs: ["/healthz", "/livez", "/readyz", "/version", "/version/"] }],
  },
};

/** The groups that are bound to the default ClusterRoles. */
const clusterRoleBindings: Readonly<Record<string, readonly string[]>> = {
  "cluster-admin": [mastersGroup],
  "system:basic-user": ["system:authenticated"],
  "system:discovery": ["system:authenticated"],
  "system:kubelet-api-admin": [kubeletClientsGroup],
  "system:monitoring": ["system:monitoring"],
  "system:service-account-issuer-discovery": ["system:serviceaccounts"],
  "system:public-info-viewer": ["system:authenticated", "system:unauthenticated"],
};

const autoupdate = "rbac.authorization.kubernetes.io/autoupdate";

/**
 * Creates missing default ClusterRoles and ClusterRoleBindings, and restores missing rules and subjects of existing ones unless their
 * annotation `rbac.authorization.kubernetes.io/autoupdate` is `false`.
 */
export async function ensureDefaultRoles(
  store: Pick<Store, "get" | "write">,
  options: { readonly now: () => number; readonly newId: () => string },
): Promise<void> {
  const wanted = [
    ...Object.keys(clusterRoles).map((name) => ["clusterroles", clusterRole(name)] as const),
    ...Object.keys(clusterRoleBindings).map((name) => ["clusterrolebindings", clusterRoleBinding(name)] as const),
  ];
  await Promise.all(wanted.map(([plural, object]) => ensure(store, plural, object, options)));
}

async function ensure(
  store: Pick<Store, "get" | "write">,
  plural: string,
  object: DefaultObject,
  { now, newId }: { readonly now: () => number; readonly newId: () => string },
): Promise<void> {
  const key = storageKey({ group: rbacGroup, plural }, "", object.metadata.name ?? "");
  for (;;) {
    const stored = store.get(key);
    const next = stored === undefined ? created(object, now(), newId()) : completed(stored.object, object);
    if (next === undefined || (await store.write(key, stored?.revision ?? 0, next)).ok) return;
  }
}

interface DefaultObject extends KubernetesObject {
  rules?: PolicyRule[];
  aggregationRule?: unknown;
  roleRef?: unknown;
  subjects?: unknown[];
}

function created(object: DefaultObject, now: number, uid: string): DefaultObject {
  const { apiVersion, kind, metadata, ...rest } = object;
  const creationTimestamp = formatTime(now);
  return { apiVersion, kind, metadata: { name: metadata.name ?? "", uid, creationTimestamp, ...metadata }, ...rest };
}

/** Adds missing rules and subjects to the stored object; undefined if nothing is missing. */
function completed(stored: DeepReadonly<KubernetesObject>, wanted: DefaultObject): DefaultObject | undefined {
  const current = structuredClone(stored) as DefaultObject;
  if (current.metadata.annotations?.[autoupdate] === "false") return undefined;
  const missingRules = uncoveredRules(rulesOf(current.rules), wanted.rules ?? []);
  const subjects = current.subjects ?? [];
  const missingSubjects = (wanted.subjects ?? []).filter((subject) => !subjects.some((other) => jsonEquals(other, subject)));
  const lacksAggregation = wanted.aggregationRule !== undefined && current.aggregationRule === undefined;
  if (missingRules.length === 0 && missingSubjects.length === 0 && !lacksAggregation) return undefined;
  return {
    ...current,
    ...(missingRules.length > 0 ? { rules: [...(current.rules ?? []), ...(wanted.rules ?? [])] } : {}),
    ...(missingSubjects.length > 0 ? { subjects: [...subjects, ...missingSubjects] } : {}),
    ...(lacksAggregation ? { aggregationRule: wanted.aggregationRule } : {}),
  };
}

function clusterRole(name: string): DefaultObject {
  const { rules, aggregates, aggregateTo } = clusterRoles[name] ?? {};
  return {
    apiVersion: `${rbacGroup}/v1`,
    kind: "ClusterRole",
    metadata: metadata(name, aggregateTo === undefined ? {} : { [aggregationLabel(aggregateTo)]: "true" }),
    ...(aggregates === undefined
      ? {}
      : { aggregationRule: { clusterRoleSelectors: [{ matchLabels: { [aggregationLabel(aggregates)]: "true" } }] } }),
    rules: [...(rules ?? [])],
  };
}

function clusterRoleBinding(name: string): DefaultObject {
  return {
    apiVersion: `${rbacGroup}/v1`,
    kind: "ClusterRoleBinding",
    metadata: metadata(name, {}),
    subjects: (clusterRoleBindings[name] ?? []).map((group) => ({ kind: "Group", apiGroup: rbacGroup, name: group })),
    roleRef: { apiGroup: rbacGroup, kind: "ClusterRole", name },
  };
}

function metadata(name: string, labels: Record<string, string>): KubernetesObject["metadata"] {
  return { name, labels: { "kubernetes.io/bootstrapping": "rbac-defaults", ...labels }, annotations: { [autoupdate]: "true" } };
}

function aggregationLabel(role: string): string {
  return `${rbacGroup}/aggregate-to-${role}`;
}

function rule(verbs: readonly string[], apiGroups: readonly string[], resources: readonly string[]): PolicyRule {
  return { verbs, apiGroups, resources };
}

/** Adds the status subresource of each resource. */
function withStatus(resources: readonly string[]): string[] {
  return resources.flatMap((name) => (name.includes("/") || name === "configmaps" ? [name] : [name, `${name}/status`]));
}
