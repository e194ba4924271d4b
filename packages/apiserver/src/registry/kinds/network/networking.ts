import type { IngressClassObject, IngressObject, NetworkPolicyObject } from "@keelson/api-machinery/kinds";
import { invalidCause } from "@keelson/api-machinery/validation";
import { age } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource, column } from "../../builtin/builtin-resource.ts";
import type { DraftObject } from "../../received.ts";
import type { ServedResource } from "../../served-resource.ts";
import { unenforcedWarning } from "../../unenforced.ts";
import { ingressBalancerCauses } from "./balancer-status.ts";
import { classCauses, ingressCauses } from "./ingress-validation.ts";
import { policyCauses } from "./policy-validation.ts";
import { selectorCell } from "../workload/workload.ts";

/** networking.k8s.io/v1: Ingresses, IngressClasses and NetworkPolicies. */
export function networkingKinds(): readonly ServedResource[] {
  return [ingressClasses, ingresses, networkPolicies];
}

const ingresses = builtinResource<IngressObject>({
  group: "networking.k8s.io",
  version: "v1",
  kind: "Ingress",
  plural: "ingresses",
  shortNames: ["ing"],
  scope: "Namespaced",
  hasStatus: true,
  columns: [
    column("Class", "The Ingress class."),
    column("Hosts", "The hosts of its rules."),
    column("Address", "The addresses of the load balancer."),
    column("Ports", "80, and 443 with TLS."),
    ageColumn,
  ],
  cells: (object, now) => {
    const hosts = (object.spec?.rules ?? []).map((rule) => rule.host ?? "").filter((host) => host !== "");
    const shown = hosts.length > 3 ? `${hosts.slice(0, 3).join(",")} + ${hosts.length - 3} more...` : hosts.join(",");
    return [
      object.spec?.ingressClassName || object.metadata.annotations?.["kubernetes.io/ingress.class"] || "<none>",
      shown === "" ? "*" : shown,
      (object.status?.loadBalancer?.ingress ?? []).map((address) => address.ip || address.hostname).join(","),
      (object.spec?.tls ?? []).length > 0 ? "80, 443" : "80",
      age(object.metadata.creationTimestamp, now),
    ];
  },
  strategy: {
    warnings: (ingress, old) =>
      old === undefined &&
      ingress.spec?.ingressClassName === undefined &&
      ingress.metadata.annotations?.["kubernetes.io/ingress.class"] !== undefined
        ? [`annotation "kubernetes.io/ingress.class" is deprecated, please use 'spec.ingressClassName' instead`]
        : [],
    prepareForCreate: (object) => {
      object.status = { loadBalancer: {} };
    },
    validate: ingressCauses,
    status: { validate: ingressBalancerCauses },
  },
});

const ingressClasses = builtinResource<IngressClassObject>({
  group: "networking.k8s.io",
  version: "v1",
  kind: "IngressClass",
  plural: "ingressclasses",
  scope: "Cluster",
  columns: [
    column("Controller", "The controller of its Ingresses."),
    column("Parameters", "The parameters of the controller."),
    ageColumn,
  ],
  cells: (object, now) => {
    const parameters = object.spec?.parameters;
    const group = parameters?.apiGroup ?? "";
    const kind = parameters?.kind ?? "";
    return [
      object.spec?.controller ?? "",
      kind === "" ? "<none>" : `${kind}${group === "" ? "" : `.${group}`}/${parameters?.name ?? ""}`,
      age(object.metadata.creationTimestamp, now),
    ];
  },
  strategy: {
    default: (object) => {
      const parameters = object.spec?.parameters;
      if (parameters !== undefined) parameters.scope ??= "Cluster";
    },
    validate: classCauses,
    validateUpdate: (object, old) =>
      (object.spec?.controller ?? "") === (old.spec?.controller ?? "")
        ? []
        : [invalidCause("spec.controller", object.spec?.controller ?? "", "field is immutable")],
  },
});

const networkPolicies = builtinResource<NetworkPolicyObject>({
  group: "networking.k8s.io",
  version: "v1",
  kind: "NetworkPolicy",
  plural: "networkpolicies",
  shortNames: ["netpol"],
  scope: "Namespaced",
  columns: [column("Pod-Selector", "The selector of its Pods."), ageColumn],
  cells: (object, now) => [selectorCell(object.spec?.podSelector), age(object.metadata.creationTimestamp, now)],
  strategy: {
    default: defaultPolicy,
    validate: policyCauses,
    warnings: () => [unenforcedWarning("networkpolicies.networking.k8s.io") ?? ""].filter((text) => text !== ""),
  },
});

function defaultPolicy(object: DraftObject<NetworkPolicyObject>): void {
  const spec = (object.spec ??= {});
  // An empty selector selects all Pods of the namespace.
  spec.podSelector ??= {};
  if (!spec.policyTypes?.length) spec.policyTypes = spec.egress?.length ? ["Ingress", "Egress"] : ["Ingress"];
  for (const rule of [...(spec.ingress ?? []), ...(spec.egress ?? [])]) {
    for (const port of rule.ports ?? []) port.protocol ??= "TCP";
  }
}
