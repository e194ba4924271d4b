import type { PolicyRule } from "@keelson/api-machinery/kinds";

const read = ["get", "list", "watch"];
const change = [...read, "create", "update", "patch", "delete"];
const announce: PolicyRule = { verbs: ["create", "patch"], apiGroups: ["events.k8s.io"], resources: ["events"] };

/** Somebody of the cluster itself, and all that it may do. */
export interface ClusterUser {
  readonly username: string;
  /** Besides `system:authenticated`. */
  readonly groups: readonly string[];
  readonly rules: readonly PolicyRule[];
  /** What it may do in one namespace only. */
  readonly namespaced?: { readonly namespace: string; readonly rules: readonly PolicyRule[] };
}

/**
 * The kubelet of a node. Besides these rights it has, by the API server's node authorizer, those that follow from its Pods: it reads what
 * they name, gets tokens of their service accounts, writes their status and lets them go. Other Nodes and their Leases are not its.
 */
export function nodeUser(nodeName: string): ClusterUser {
  const own = { resourceNames: [nodeName] };
  return {
    username: `system:node:${nodeName}`,
    groups: ["system:nodes"],
    rules: [
      { verbs: ["create"], apiGroups: [""], resources: ["nodes"] },
      { verbs: ["get", "patch"], apiGroups: [""], resources: ["nodes"], ...own },
      { verbs: ["patch"], apiGroups: [""], resources: ["nodes/status"], ...own },
      { verbs: read, apiGroups: [""], resources: ["pods", "services"] },
      { verbs: read, apiGroups: ["discovery.k8s.io"], resources: ["endpointslices"] },
      { verbs: ["get"], apiGroups: ["node.k8s.io"], resources: ["runtimeclasses"] },
      announce,
    ],
    namespaced: {
      namespace: "kube-node-lease",
      rules: [
        { verbs: ["create"], apiGroups: ["coordination.k8s.io"], resources: ["leases"] },
        { verbs: ["get", "patch"], apiGroups: ["coordination.k8s.io"], resources: ["leases"], ...own },
      ],
    },
  };
}

/** The balancer of Services' addresses. */
export const proxyUser: ClusterUser = {
  username: "system:kube-proxy",
  groups: [],
  rules: [
    { verbs: read, apiGroups: [""], resources: ["services"] },
    { verbs: read, apiGroups: ["discovery.k8s.io"], resources: ["endpointslices"] },
  ],
};

/** The controllers of workloads, endpoints and volumes, and the scheduler. They see no Secrets and change no rights. */
export const controllersUser: ClusterUser = {
  username: "system:kube-controller-manager",
  groups: [],
  rules: [
    {
      verbs: change,
      apiGroups: [""],
      resources: ["endpoints", "persistentvolumeclaims", "persistentvolumes", "pods", "serviceaccounts"],
    },
    {
      verbs: ["patch", "update"],
      apiGroups: [""],
      resources: ["persistentvolumeclaims/status", "persistentvolumes/status", "pods/status", "services/status"],
    },
    { verbs: ["create"], apiGroups: [""], resources: ["pods/binding"] },
    { verbs: read, apiGroups: [""], resources: ["namespaces", "nodes", "services"] },
    { verbs: change, apiGroups: ["apps"], resources: ["controllerrevisions", "deployments", "replicasets", "statefulsets"] },
    {
      verbs: ["patch", "update"],
      apiGroups: ["apps"],
      resources: ["deployments/status", "replicasets/status", "statefulsets/status"],
    },
    { verbs: change, apiGroups: ["batch"], resources: ["jobs"] },
    { verbs: ["patch", "update"], apiGroups: ["batch"], resources: ["jobs/status"] },
    { verbs: read, apiGroups: ["policy"], resources: ["poddisruptionbudgets"] },
    { verbs: ["patch", "update"], apiGroups: ["policy"], resources: ["poddisruptionbudgets/status"] },
    { verbs: change, apiGroups: ["discovery.k8s.io"], resources: ["endpointslices"] },
    { verbs: [...read, "create"], apiGroups: ["storage.k8s.io"], resources: ["storageclasses"] },
    announce,
  ],
};

/** Whoever empties namespaces and collects garbage: all kinds, but nothing is ever made. */
export const collectorUser: ClusterUser = {
  username: "system:serviceaccount:kube-system:generic-garbage-collector",
  groups: ["system:serviceaccounts", "system:serviceaccounts:kube-system"],
  rules: [{ verbs: [...read, "patch", "update", "delete", "deletecollection"], apiGroups: ["*"], resources: ["*"] }, announce],
};
