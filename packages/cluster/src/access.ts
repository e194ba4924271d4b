import type { PolicyRule } from "@keelson/api-machinery/kinds";

const read = ["get", "list", "watch"];
const change = [...read, "create", "update", "patch", "delete"];
const recordEvents: PolicyRule = { verbs: ["create", "patch"], apiGroups: ["events.k8s.io"], resources: ["events"] };

/** A component of the cluster and its permissions. */
export interface ClusterUser {
  readonly username: string;
  /** In addition to `system:authenticated`. */
  readonly groups: readonly string[];
  readonly rules: readonly PolicyRule[];
  /** Permissions in a single namespace. */
  readonly namespaced?: { readonly namespace: string; readonly rules: readonly PolicyRule[] };
}

/**
 * The kubelet of a node. The API server's node authorizer adds the permissions that follow from the node's Pods: reading the objects
 * they reference, requesting tokens for their service accounts, updating their status and deleting them. It grants nothing on other
 * Nodes or their Leases.
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
      recordEvents,
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

/** Balances connections to Services, and enforces NetworkPolicies. */
export const proxyUser: ClusterUser = {
  username: "system:kube-proxy",
  groups: [],
  rules: [
    { verbs: read, apiGroups: [""], resources: ["services"] },
    { verbs: read, apiGroups: ["discovery.k8s.io"], resources: ["endpointslices"] },
    { verbs: ["list", "watch"], apiGroups: [""], resources: ["namespaces"] },
    { verbs: ["list", "watch"], apiGroups: ["networking.k8s.io"], resources: ["networkpolicies"] },
  ],
};

/** The controllers of workloads, endpoints and volumes, and the scheduler. They cannot read Secrets or change RBAC. */
export const controllersUser: ClusterUser = {
  username: "system:kube-controller-manager",
  groups: [],
  rules: [
    {
      verbs: change,
      apiGroups: [""],
      resources: [
        "endpoints",
        "persistentvolumeclaims",
        "persistentvolumes",
        "pods",
        "replicationcontrollers",
        "serviceaccounts",
      ],
    },
    {
      verbs: ["patch", "update"],
      apiGroups: [""],
      resources: [
        "persistentvolumeclaims/status",
        "persistentvolumes/status",
        "pods/status",
        "replicationcontrollers/status",
        "services/status",
      ],
    },
    { verbs: ["create"], apiGroups: [""], resources: ["pods/binding"] },
    { verbs: [...read, "create", "update"], apiGroups: [""], resources: ["configmaps"] },
    { verbs: read, apiGroups: [""], resources: ["namespaces", "nodes", "services"] },
    { verbs: ["patch"], apiGroups: [""], resources: ["nodes"] },
    {
      verbs: change,
      apiGroups: ["apps"],
      resources: ["controllerrevisions", "daemonsets", "deployments", "replicasets", "statefulsets"],
    },
    {
      verbs: ["patch", "update"],
      apiGroups: ["apps"],
      resources: ["daemonsets/status", "deployments/status", "replicasets/status", "statefulsets/status"],
    },
    { verbs: change, apiGroups: ["batch"], resources: ["cronjobs", "jobs"] },
    { verbs: ["patch", "update"], apiGroups: ["batch"], resources: ["cronjobs/status", "jobs/status"] },
    {
      verbs: ["patch"],
      apiGroups: ["", "apps"],
      resources: ["deployments/scale", "replicasets/scale", "replicationcontrollers/scale", "statefulsets/scale"],
    },
    { verbs: read, apiGroups: ["autoscaling"], resources: ["horizontalpodautoscalers"] },
    { verbs: ["patch", "update"], apiGroups: ["autoscaling"], resources: ["horizontalpodautoscalers/status"] },
    { verbs: ["get", "list"], apiGroups: ["metrics.k8s.io"], resources: ["pods"] },
    { verbs: read, apiGroups: ["policy"], resources: ["poddisruptionbudgets"] },
    { verbs: ["patch", "update"], apiGroups: ["policy"], resources: ["poddisruptionbudgets/status"] },
    { verbs: change, apiGroups: ["discovery.k8s.io"], resources: ["endpointslices"] },
    { verbs: [...read, "create"], apiGroups: ["storage.k8s.io"], resources: ["storageclasses"] },
    { verbs: read, apiGroups: ["certificates.k8s.io"], resources: ["certificatesigningrequests"] },
    { verbs: ["update"], apiGroups: ["certificates.k8s.io"], resources: ["certificatesigningrequests/status"] },
    {
      verbs: ["sign"],
      apiGroups: ["certificates.k8s.io"],
      resources: ["signers"],
      resourceNames: [
        "kubernetes.io/kube-apiserver-client",
        "kubernetes.io/kube-apiserver-client-kubelet",
        "kubernetes.io/kubelet-serving",
      ],
    },
    recordEvents,
  ],
};

/** The namespace controller and the garbage collector. They can delete objects of every kind and create none. */
export const collectorUser: ClusterUser = {
  username: "system:serviceaccount:kube-system:generic-garbage-collector",
  groups: ["system:serviceaccounts", "system:serviceaccounts:kube-system"],
  rules: [
    { verbs: [...read, "patch", "update", "delete", "deletecollection"], apiGroups: ["*"], resources: ["*"] },
    recordEvents,
  ],
};
