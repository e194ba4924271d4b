import { type DeepReadonly, isJsonObject, jsonEquals, type KubernetesObject, statusError } from "@keelson/api-machinery";
import type { AdmissionStep } from "../../admission/admission.ts";
import type { UserInfo } from "../../registry/served-resource.ts";
import type { Store } from "../../storage/store.ts";
import { NodeIndex, type ReferencedPlural } from "./node-index.ts";
import type { AccessTarget } from "../rbac/policy-rule.ts";
import type { Authorizer, Decision } from "../rbac/rbac-authorizer.ts";
import type { Evaluate } from "../reviews/review-kinds.ts";

/** The group of all nodes. */
export const nodesGroup = "system:nodes";

const userPrefix = "system:node:";
const restrictedLabel = "node-restriction.kubernetes.io";

/** The name of the node that a user represents; undefined for other users. */
export function nodeOf(user: UserInfo): string | undefined {
  if (!user.username.startsWith(userPrefix) || !user.groups.includes(nodesGroup)) return undefined;
  return user.username.slice(userPrefix.length) || undefined;
}

/** The rights of nodes beyond RBAC, and restrictions that RBAC cannot lift. */
export interface NodeRights {
  /** Allows what RBAC or the node's own rights allow. */
  readonly authorizer: Authorizer;
  /** Restricts nodes to their own Node and Lease (admission plugin NodeRestriction). */
  readonly admission: AdmissionStep;
  /** Restricts nodes to tokens bound to one of their Pods. */
  guardTokens(requestToken: Evaluate): Evaluate;
  close(): void;
}

const readOne: ReadonlySet<string> = new Set(["get", "list", "watch"]);
const referenced: ReadonlySet<string> = new Set<ReferencedPlural>([
  "configmaps",
  "secrets",
  "persistentvolumeclaims",
  "serviceaccounts",
]);
const followed: ReadonlySet<string> = new Set(["configmaps", "secrets"]);
const denied: Decision = { allowed: false, reason: "" };

/**
 * Creates the rights of nodes, that is, users `system:node:NAME` in the group `system:nodes` (Kubernetes' node authorizer). A node may read
 * the ConfigMaps and Secrets (by name, also as a watch), claims, volumes and service accounts that Pods bound to it reference, request
 * tokens for these accounts, update the status of its Pods and delete them. A Pod counts from the moment its binding is stored.
 */
export function createNodeRights(store: Pick<Store, "list" | "watch" | "get">, rbac: Authorizer): NodeRights {
  const index = new NodeIndex(store);

  function allows(node: string, verb: string, target: AccessTarget): boolean {
    if (!("resource" in target) || target.group !== "" || !target.name) return false;
    const { resource, subresource = "", namespace = "", name } = target;
    if (resource === "pods") {
      const isOwn =
        subresource === "" ? verb === "delete" : subresource === "status" && (verb === "patch" || verb === "update");
      return isOwn && index.hasPod(node, namespace, name);
    }
    if (resource === "serviceaccounts" && subresource === "token") {
      return verb === "create" && index.isReferenced(node, "serviceaccounts", namespace, name);
    }
    if (subresource !== "") return false;
    if (resource === "persistentvolumes") return verb === "get" && index.isVolumeReferenced(node, name);
    if (!referenced.has(resource) || !(followed.has(resource) ? readOne.has(verb) : verb === "get")) return false;
    return index.isReferenced(node, resource as ReferencedPlural, namespace, name);
  }

  return {
    authorizer: {
      ...rbac,
      authorize(user, verb, target) {
        const decision = rbac.authorize(user, verb, target);
        const node = decision.allowed ? undefined : nodeOf(user);
        if (node === undefined) return decision;
        return allows(node, verb, target)
          ? { allowed: true, reason: `node: named by a Pod of node ${JSON.stringify(node)}` }
          : denied;
      },
    },
    admission: {
      name: "NodeRestriction",
      validate({ operation, resource, name, namespace, object, oldObject, user }) {
        const node = nodeOf(user);
        if (node === undefined || operation === "CONNECT") return;
        const isNode = resource.group === "" && resource.plural === "nodes";
        const isLease = resource.group === "coordination.k8s.io" && resource.plural === "leases";
        if (!isNode && !isLease) return;
        const target = object?.metadata.name ?? name;
        const refuse = (why: string): Error =>
          statusError(
            "Forbidden",
            `${resource.plural} ${JSON.stringify(target)} is forbidden: node ${JSON.stringify(node)} ${why}`,
            {
              name: target,
              kind: resource.plural,
            },
          );
        if (isLease && namespace !== "kube-node-lease")
          throw refuse('is not allowed to use leases outside of "kube-node-lease"');
        if (target !== node) throw refuse(`is not allowed to modify ${isNode ? "node" : "lease"} ${JSON.stringify(target)}`);
        if (!isNode || object === undefined || operation === "DELETE") return;
        const forbidden = changedLabels(object, oldObject).filter(isForbiddenLabel);
        if (operation === "CREATE" && forbidden.length > 0) {
          throw rejectNode(target, `is not allowed to set the following labels: ${forbidden.join(", ")}`);
        }
        if (operation === "CREATE") return;
        if (!jsonEquals(taintsOf(object), taintsOf(oldObject))) {
          throw rejectNode(target, `node ${JSON.stringify(node)} is not allowed to modify taints`);
        }
        if (forbidden.length > 0) throw rejectNode(target, `is not allowed to modify labels: ${forbidden.join(", ")}`);
      },
    },
    guardTokens: (requestToken) => (object, request) => {
      const node = nodeOf(request.user);
      if (node === undefined) return requestToken(object, request);
      const { spec } = object as { readonly spec?: unknown };
      const bound = isJsonObject(spec) && isJsonObject(spec["boundObjectRef"]) ? spec["boundObjectRef"] : {};
      const pod = bound["kind"] === "Pod" && typeof bound["name"] === "string" ? bound["name"] : "";
      const uid = index.podOfAccount(node, request.namespace, pod, request.name);
      if (uid === undefined || bound["uid"] !== uid) {
        const why = `node requested token not bound to a Pod of node ${JSON.stringify(node)} that runs as it`;
        throw statusError("Forbidden", `serviceaccounts ${JSON.stringify(request.name)} is forbidden: ${why}`, {
          name: request.name,
          kind: "serviceaccounts",
        });
      }
      return requestToken(object, request);
    },
    close: () => index.close(),
  };
}

function rejectNode(name: string, reason: string): Error {
  const message = `nodes ${JSON.stringify(name)} is forbidden: ${reason}`;
  return statusError("Forbidden", message, { name, kind: "nodes" });
}

function taintsOf(object: DeepReadonly<KubernetesObject> | undefined): unknown {
  const { spec } = (object ?? {}) as { readonly spec?: { readonly taints?: readonly unknown[] } };
  return spec?.taints ?? [];
}

/** Keys of the labels that a write changes, sorted. */
function changedLabels(
  object: DeepReadonly<KubernetesObject>,
  old: DeepReadonly<KubernetesObject> | undefined,
): readonly string[] {
  const [now, before] = [object.metadata.labels ?? {}, old?.metadata.labels ?? {}];
  return [...new Set([...Object.keys(now), ...Object.keys(before)])].filter((key) => now[key] !== before[key]).toSorted();
}

/** Labels of Kubernetes that a kubelet sets on its Node (kubelet/pkg/apis/well_known_labels.go). */
const kubeletLabels: ReadonlySet<string> = new Set([
  "kubernetes.io/hostname",
  "kubernetes.io/os",
  "kubernetes.io/arch",
  "beta.kubernetes.io/os",
  "beta.kubernetes.io/arch",
  "beta.kubernetes.io/instance-type",
  "node.kubernetes.io/instance-type",
  "topology.kubernetes.io/region",
  "topology.kubernetes.io/zone",
  "failure-domain.beta.kubernetes.io/region",
  "failure-domain.beta.kubernetes.io/zone",
]);
const kubeletDomains = ["kubelet.kubernetes.io", "node.kubernetes.io"];

/** Whether a node may not set a label on itself, so that it cannot attract workloads that are restricted to other nodes. */
function isForbiddenLabel(key: string): boolean {
  const domain = key.includes("/") ? (key.split("/")[0] ?? "") : "";
  const isOf = (parent: string): boolean => domain === parent || domain.endsWith(`.${parent}`);
  if (isOf(restrictedLabel)) return true;
  if (!isOf("kubernetes.io") && !isOf("k8s.io")) return false;
  return !kubeletLabels.has(key) && !kubeletDomains.some(isOf);
}
