import { type DeepReadonly, jsonEquals, type KubernetesObject, type StatusError, statusError } from "@keelson/api-machinery";
import { podReferences } from "@keelson/api-machinery/kinds";
import type { NodeObject, PodObject } from "@keelson/api-machinery/kinds";
import type { AdmissionRequest } from "../../admission/admission.ts";
import type { Store } from "../../storage/store.ts";
import { storageKey } from "../../storage/store.ts";

type Forbid = (why: string) => StatusError;

/** Restricts a node's write to its own Node, Lease and Pods (admission plugin NodeRestriction). Throws `Forbidden`. */
export function restrictNode(store: Pick<Store, "get">, node: string, request: AdmissionRequest): void {
  const { resource, object, operation } = request;
  if (operation === "CONNECT") return;
  const name = object?.metadata.name ?? request.name;
  const forbid: Forbid = (why) =>
    statusError("Forbidden", `${resource.plural} ${JSON.stringify(name)} is forbidden: ${why}`, {
      name,
      ...(resource.group === "" ? {} : { group: resource.group }),
      kind: resource.plural,
    });
  const id = `${resource.group}/${resource.plural}`;
  if (id === "/nodes") restrictNodeObject(node, name, request, forbid);
  else if (id === "/pods") restrictPod(store, node, request, forbid);
  else if (id === "coordination.k8s.io/leases") {
    if (request.namespace !== "kube-node-lease") {
      throw forbid(`node ${JSON.stringify(node)} is not allowed to use leases outside of "kube-node-lease"`);
    }
    if (name !== node) throw forbid(`node ${JSON.stringify(node)} is not allowed to modify lease ${JSON.stringify(name)}`);
  }
}

function restrictNodeObject(node: string, name: string, request: AdmissionRequest, forbid: Forbid): void {
  const { operation, object, oldObject } = request;
  const quoted = JSON.stringify(node);
  if (name !== node) throw forbid(`node ${quoted} is not allowed to modify node ${JSON.stringify(name)}`);
  if (object === undefined) return;
  const labels = changedLabels(object, oldObject).filter(isForbiddenLabel).sort();
  if (operation === "CREATE") {
    if (labels.length > 0) throw forbid(`node ${quoted} is not allowed to set the following labels: ${labels.join(", ")}`);
    return;
  }
  const taintsOf = (value: DeepReadonly<NodeObject> | undefined): unknown => value?.spec?.taints ?? [];
  if (!jsonEquals(taintsOf(object), taintsOf(oldObject))) throw forbid(`node ${quoted} is not allowed to modify taints`);
  if (labels.length > 0) throw forbid(`is not allowed to modify labels: ${labels.join(", ")}`);
}

const mirrorAnnotation = "kubernetes.io/config.mirror";

function restrictPod(store: Pick<Store, "get">, node: string, request: AdmissionRequest, forbid: Forbid): void {
  const { operation, subresource, object, oldObject, namespace, name } = request;
  const quoted = JSON.stringify(node);
  const requireOwn = (pod: DeepReadonly<KubernetesObject> | undefined, verb: string): void => {
    if ((pod as DeepReadonly<PodObject> | undefined)?.spec.nodeName !== node) {
      throw forbid(`node ${quoted} can only ${verb} pods with spec.nodeName set to itself`);
    }
  };
  if (subresource === "eviction") {
    requireOwn(store.get(storageKey({ group: "", plural: "pods" }, namespace, name))?.object, "evict");
  } else if (subresource === "status") {
    if ((oldObject as DeepReadonly<PodObject> | undefined)?.spec.nodeName !== node) {
      throw forbid(`node ${quoted} can only update pod status for pods with spec.nodeName set to itself`);
    }
    if (!jsonEquals(object?.metadata.labels ?? {}, oldObject?.metadata.labels ?? {})) {
      throw forbid(`node ${quoted} cannot update labels through pod status`);
    }
  } else if (subresource !== "") throw forbid(`unexpected pod subresource ${JSON.stringify(subresource)}`);
  else if (operation === "DELETE") requireOwn(oldObject, "delete");
  else if (operation === "CREATE") restrictMirrorPod(store, node, object as PodObject, forbid);
  else throw forbid(`unexpected operation ${JSON.stringify(operation)}, node ${quoted} can only create and delete mirror pods`);
}

function restrictMirrorPod(store: Pick<Store, "get">, node: string, pod: PodObject, forbid: Forbid): void {
  const quoted = JSON.stringify(node);
  if (pod.metadata.annotations?.[mirrorAnnotation] === undefined) {
    const why = `pod does not have ${JSON.stringify(mirrorAnnotation)} annotation, node ${quoted} can only create mirror pods`;
    throw forbid(why);
  }
  if (pod.spec.nodeName !== node) throw forbid(`node ${quoted} can only create pods with spec.nodeName set to itself`);
  const { configMaps, secrets, claims } = podReferences({ metadata: pod.metadata, spec: pod.spec });
  if (pod.spec.serviceAccountName) throw forbid("a mirror pod may not reference service accounts");
  if (secrets.size > 0) throw forbid("a mirror pod may not reference secrets");
  if (configMaps.size > 0) throw forbid(`node ${quoted} can not create pods that reference configmaps`);
  if (claims.size > 0) throw forbid(`node ${quoted} can not create pods that reference persistentvolumeclaims`);
  const owners = pod.metadata.ownerReferences ?? [];
  const [owner] = owners;
  if (owners.length > 1) throw forbid(`node ${quoted} can only create pods with a single owner reference set to itself`);
  const uid = store.get(storageKey({ group: "", plural: "nodes" }, "", node))?.object.metadata.uid;
  if (owner?.apiVersion !== "v1" || owner.kind !== "Node" || owner.name !== node || owner.uid !== uid) {
    throw forbid(`node ${quoted} can only create pods with an owner reference set to itself`);
  }
}

/** Labels under Kubernetes' domains that a kubelet may set on its Node. */
const kubeletLabels: ReadonlySet<string> = new Set([
  "beta.kubernetes.io/arch",
  "beta.kubernetes.io/instance-type",
  "beta.kubernetes.io/os",
  "failure-domain.beta.kubernetes.io/region",
  "failure-domain.beta.kubernetes.io/zone",
  "kubernetes.io/arch",
  "kubernetes.io/hostname",
  "kubernetes.io/os",
  "topology.kubernetes.io/region",
  "topology.kubernetes.io/zone",
]);
const kubeletDomains = ["kubelet.kubernetes.io", "node.kubernetes.io"];

function isForbiddenLabel(key: string): boolean {
  const domain = key.includes("/") ? (key.split("/")[0] ?? "") : "";
  const isIn = (parent: string): boolean => domain === parent || domain.endsWith(`.${parent}`);
  if (isIn("node-restriction.kubernetes.io")) return true;
  if (!isIn("kubernetes.io") && !isIn("k8s.io")) return false;
  return !kubeletLabels.has(key) && !kubeletDomains.some(isIn);
}

function changedLabels(object: KubernetesObject, old: DeepReadonly<KubernetesObject> | undefined): readonly string[] {
  const [now, before] = [object.metadata.labels ?? {}, old?.metadata.labels ?? {}];
  return [...new Set([...Object.keys(now), ...Object.keys(before)])].filter((key) => now[key] !== before[key]);
}
