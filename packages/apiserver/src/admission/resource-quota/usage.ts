import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";
import { formatQuantity, isQuantity, subtractQuantities } from "@keelson/api-machinery/quantity";
import { listAt, mapAt, textAt, valueAt } from "../../registry/object-fields.ts";
import { podResources, type ResourceAmounts } from "../../registry/kinds/pod/pod-resources.ts";

/** Group and plural of a kind. */
export interface QuotaKind {
  readonly group: string;
  readonly plural: string;
}

/** Kinds that are also counted under their plain name. */
const plainCounts: ReadonlySet<string> = new Set([
  "configmaps",
  "persistentvolumeclaims",
  "replicationcontrollers",
  "resourcequotas",
  "secrets",
  "services",
]);

/** `count/pods`; `count/leases.coordination.k8s.io`. */
function countName({ group, plural }: QuotaKind): string {
  return group === "" ? `count/${plural}` : `count/${plural}.${group}`;
}

/** The kind that a quota resource counts or measures; undefined if it is none that is known. */
export function kindOfQuotaResource(name: string): QuotaKind | undefined {
  if (name.startsWith("count/")) {
    const [plural = "", ...group] = name.slice("count/".length).split(".");
    return { group: group.join("."), plural };
  }
  if (plainCounts.has(name)) return { group: "", plural: name };
  if (name.startsWith("services.")) return { group: "", plural: "services" };
  if (name === "requests.storage" || name.includes(".storageclass.storage.k8s.io/")) {
    return { group: "", plural: "persistentvolumeclaims" };
  }
  return podResource.test(name) ? { group: "", plural: "pods" } : undefined;
}

const podResource = /^(?:pods|cpu|memory|ephemeral-storage|hugepages-.+|(?:requests|limits)\..+)$/;

/** What an object uses of each quota resource. */
export function usageOf(kind: QuotaKind, object: DeepReadonly<KubernetesObject>): ResourceAmounts {
  const usage: Record<string, string | number> = { [countName(kind)]: "1" };
  if (kind.group !== "") return usage;
  if (plainCounts.has(kind.plural)) usage[kind.plural] = "1";
  switch (kind.plural) {
    case "pods":
      return { ...usage, ...podUsage(object) };
    case "services":
      return { ...usage, ...serviceUsage(object) };
    case "persistentvolumeclaims":
      return { ...usage, ...claimUsage(object) };
    default:
      return usage;
  }
}

/** What a write adds to the usage: all of a new object, or the difference to the object that it replaces. */
export function usageAdded(
  kind: QuotaKind,
  object: DeepReadonly<KubernetesObject>,
  oldObject: DeepReadonly<KubernetesObject> | undefined,
): ResourceAmounts {
  const now = usageOf(kind, object);
  if (oldObject === undefined) return now;
  const before = usageOf(kind, oldObject);
  const names = new Set([...Object.keys(now), ...Object.keys(before)]);
  return Object.fromEntries([...names].map((name) => [name, subtractQuantities(now[name] ?? 0, before[name] ?? 0)]));
}

/** Finished Pods count as objects only. */
function podUsage(pod: DeepReadonly<KubernetesObject>): ResourceAmounts {
  const phase = textAt(pod, "status", "phase");
  if (phase === "Succeeded" || phase === "Failed") return {};
  const usage: Record<string, string> = { pods: "1" };
  const [spec, status] = [valueAt(pod, "spec"), valueAt(pod, "status")];
  for (const [name, amount] of Object.entries(podResources(spec, "requests", status))) {
    usage[`requests.${name}`] = formatQuantity(amount);
    if (!name.includes("/")) usage[name] = formatQuantity(amount);
  }
  for (const [name, amount] of Object.entries(podResources(spec, "limits", status)))
    usage[`limits.${name}`] = formatQuantity(amount);
  return usage;
}

function serviceUsage(service: DeepReadonly<KubernetesObject>): ResourceAmounts {
  const type = textAt(service, "spec", "type");
  const ports = listAt(service, "spec", "ports");
  const allocated = ports.filter((port) => typeof valueAt(port, "nodePort") === "number" && valueAt(port, "nodePort") !== 0);
  const allocates = valueAt(service, "spec", "allocateLoadBalancerNodePorts") !== false;
  if (type === "NodePort") return { "services.nodeports": ports.length };
  if (type !== "LoadBalancer") return {};
  return { "services.loadbalancers": 1, "services.nodeports": allocates ? ports.length : allocated.length };
}

function claimUsage(claim: DeepReadonly<KubernetesObject>): ResourceAmounts {
  const requests = mapAt(claim, "spec", "resources", "requests");
  const storage = Object.hasOwn(requests, "storage") ? requests["storage"] : undefined;
  const className = textAt(claim, "spec", "storageClassName");
  const prefix = `${className}.storageclass.storage.k8s.io/`;
  return {
    ...(className === "" ? {} : { [`${prefix}persistentvolumeclaims`]: 1 }),
    ...(isQuantity(storage) ? { "requests.storage": storage } : {}),
    ...(isQuantity(storage) && className !== "" ? { [`${prefix}requests.storage`]: storage } : {}),
  };
}
