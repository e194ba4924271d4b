/** Something that is validated and stored, but has no effect under `keelson up`. */
export interface Unenforced {
  /** The resource: `networkpolicies.networking.k8s.io`. */
  readonly resource: string;
  /** Path of the field; `""` for the whole object. */
  readonly field: string;
  /** Why it has no effect, as a clause. */
  readonly reason: string;
  /** The text of the `Warning` header that a create or update returns. Default: none. */
  readonly warning?: string;
}

/** Everything in built-in kinds that is stored but not enforced. The reference page `not-enforced.md` is generated from it. */
export const unenforced: readonly Unenforced[] = [
  {
    resource: "networkpolicies.networking.k8s.io",
    field: "",
    reason: "the node does not filter the traffic of Pods, except with `--pod-network namespaces`",
    warning:
      "networkpolicies.networking.k8s.io are enforced with `--pod-network namespaces` only, otherwise stored without effect",
  },
  { resource: "ingresses.networking.k8s.io", field: "", reason: "no ingress controller is included" },
  { resource: "ingressclasses.networking.k8s.io", field: "", reason: "no ingress controller is included" },
  {
    resource: "servicecidrs.networking.k8s.io",
    field: "",
    reason: "Services get addresses from the network of the server, which ServiceCIDR `kubernetes` shows",
  },
  { resource: "ipaddresses.networking.k8s.io", field: "", reason: "the server allocates addresses without them" },
  ...["nodePort", "sessionAffinity", "externalTrafficPolicy", "internalTrafficPolicy"].map((name) => ({
    resource: "services",
    field: name === "nodePort" ? "spec.ports[].nodePort" : `spec.${name}`,
    reason: ["nodePort", "sessionAffinity"].includes(name)
      ? "the service proxy listens on cluster addresses and balances round-robin, except with `--pod-network namespaces`"
      : "connections are balanced over all ready endpoints",
  })),
  {
    resource: "services",
    field: "spec.ports[].protocol",
    reason: "the service proxy forwards TCP only, except with `--pod-network namespaces`",
  },
  { resource: "services", field: "spec.type", reason: "nothing provides load balancers" },
  ...["podAffinity", "podAntiAffinity"].map((name) => ({
    resource: "pods",
    field: `spec.affinity.${name}`,
    reason: "the scheduler considers nodes, resources, ports and volumes only",
  })),
  {
    resource: "pods",
    field: "spec.topologySpreadConstraints",
    reason: "the scheduler considers nodes, resources, ports and volumes only",
  },
  { resource: "pods", field: "spec.resourceClaims", reason: "the scheduler allocates no devices" },
  ...["dnsPolicy", "dnsConfig"].map((name) => ({
    resource: "pods",
    field: `spec.${name}`,
    reason: "names of Services are in `/etc/hosts` of the programs, except with `--pod-network namespaces`",
  })),
  {
    resource: "pods",
    field: "spec.ephemeralContainers[].targetContainerName",
    reason: "containers do not share a process namespace",
  },
  { resource: "pods", field: "spec.hostUsers", reason: "runtimes choose the user namespace themselves" },
  {
    resource: "pods",
    field: "spec.securityContext.sysctls",
    reason:
      "runtimes do not apply it, except for `net.*` with `--pod-network namespaces`, and `kernel.*` in bubblewrap as root",
  },
  ...["seLinuxOptions", "seccompProfile", "appArmorProfile", "supplementalGroups"].map((name) => ({
    resource: "pods",
    field: `spec.securityContext.${name}`,
    reason: "runtimes do not apply it",
  })),
  { resource: "pods", field: "spec.volumes[].csi", reason: "the node mounts no CSI volumes" },
  {
    resource: "horizontalpodautoscalers.autoscaling",
    field: "spec.metrics",
    reason: "metrics of type `Pods`, `Object` and `External` need an API that is not served",
  },
  { resource: "horizontalpodautoscalers.autoscaling", field: "spec.behavior.*.tolerance", reason: "the tolerance is 10 %" },
  ...["csidrivers", "csinodes", "csistoragecapacities", "volumeattachments", "volumeattributesclasses"].map((plural) => ({
    resource: `${plural}.storage.k8s.io`,
    field: "",
    reason: "the node mounts no CSI volumes",
  })),
  ...["deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices"].map((plural) => ({
    resource: `${plural}.resource.k8s.io`,
    field: "",
    reason: "the scheduler allocates no devices",
  })),
];

/** The warning for an object of a resource that has no effect as a whole; undefined if there is none. */
export function unenforcedWarning(resource: string): string | undefined {
  return unenforced.find((each) => each.resource === resource && each.field === "")?.warning;
}
