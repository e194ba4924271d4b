import { type DeepReadonly, isJsonObject, type KubernetesObject, statusError } from "@keelson/api-machinery";
import type { AdmissionStep } from "../../admission/admission.ts";
import type { UserInfo } from "../../registry/served-resource.ts";
import type { Store } from "../../storage/store.ts";
import { NodeIndex, type ReferencedPlural } from "./node-index.ts";
import type { AccessTarget } from "../rbac/policy-rule.ts";
import type { Authorizer, Decision } from "../rbac/rbac-authorizer.ts";
import type { Evaluate } from "../reviews/reviews.ts";

/** The group that nodes are in. */
export const nodesGroup = "system:nodes";

const userPrefix = "system:node:";
const restrictedLabel = "node-restriction.kubernetes.io";

/** The node that a user is; undefined for everybody else. */
export function nodeOf(user: UserInfo): string | undefined {
  if (!user.username.startsWith(userPrefix) || !user.groups.includes(nodesGroup)) return undefined;
  return user.username.slice(userPrefix.length) || undefined;
}

/** What nodes may do besides what RBAC grants them, and what they may not do whatever that grants. */
export interface NodeRights {
  /** RBAC or the node's own rights: the first that allows decides. */
  readonly authorizer: Authorizer;
  /** Keeps nodes to their own Node and Lease (the admission plugin NodeRestriction). */
  readonly admission: AdmissionStep;
  /** Keeps nodes to tokens for the service accounts of their Pods, bound to such a Pod. */
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
 * The rights of nodes, users `system:node:NAME` in the group `system:nodes`, by the Pods that are bound to them (Kubernetes' node
 * authorizer): they read the ConfigMaps and Secrets (one by name, to follow it as well), claims, volumes and service accounts that those
 * name, get tokens for these, write the status of their Pods and let them go. A Pod counts as soon as the store has told of its binding.
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
        const what = object?.metadata.name ?? name;
        const refuse = (why: string): Error =>
          statusError(
            "Forbidden",
            `${resource.plural} ${JSON.stringify(what)} is forbidden: node ${JSON.stringify(node)} ${why}`,
            {
              name: what,
              kind: resource.plural,
            },
          );
        if (isLease && namespace !== "kube-node-lease")
          throw refuse('is not allowed to use leases outside of "kube-node-lease"');
        if (what !== node) throw refuse(`is not allowed to modify ${isNode ? "node" : "lease"} ${JSON.stringify(what)}`);
        const changed = isNode && object !== undefined ? changedLabels(object, oldObject) : [];
        if (changed.length > 0) throw refuse(`is not allowed to modify labels: ${changed.join(", ")}`);
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

/** Labels that only others may give a Node, and that this write would change. */
function changedLabels(
  object: DeepReadonly<KubernetesObject>,
  old: DeepReadonly<KubernetesObject> | undefined,
): readonly string[] {
  const [now, before] = [object.metadata.labels ?? {}, old?.metadata.labels ?? {}];
  const isRestricted = (key: string): boolean => {
    const domain = key.split("/")[0] ?? "";
    return key.includes("/") && (domain === restrictedLabel || domain.endsWith(`.${restrictedLabel}`));
  };
  return [...new Set([...Object.keys(now), ...Object.keys(before)])].filter(
    (key) => isRestricted(key) && now[key] !== before[key],
  );
}
