import { selectedValue } from "../../endpoints/request-info.ts";
import type { AccessTarget, ResourceTarget } from "../rbac/policy-rule.ts";
import type { Decision } from "../rbac/rbac-authorizer.ts";
import type { NodeIndex, ReferencedPlural } from "./node-index.ts";

/** Verbs that every node has on a resource, restricted further by admission (kube-apiserver's role `system:node`). */
const commonRules: readonly (readonly [group: string, resources: readonly string[], verbs: readonly string[]])[] = [
  ["", ["nodes"], ["create", "update", "patch"]],
  ["", ["nodes/status"], ["update", "patch"]],
  ["", ["services"], ["get", "list", "watch"]],
  ["", ["pods"], ["create", "delete"]],
  ["", ["pods/status"], ["update", "patch"]],
  ["", ["pods/eviction"], ["create"]],
  ["", ["events"], ["create", "update", "patch"]],
  ["events.k8s.io", ["events"], ["create", "update", "patch"]],
  ["node.k8s.io", ["runtimeclasses"], ["get", "list", "watch"]],
  ["storage.k8s.io", ["csidrivers"], ["get", "list", "watch"]],
  ["certificates.k8s.io", ["certificatesigningrequests"], ["create", "get", "list", "watch"]],
  ["authentication.k8s.io", ["tokenreviews"], ["create"]],
  ["authorization.k8s.io", ["localsubjectaccessreviews", "subjectaccessreviews"], ["create"]],
];

const readVerbs = ["get", "list", "watch"];

const followed: ReadonlySet<string> = new Set<ReferencedPlural>(["configmaps", "secrets"]);
const readOnce: ReadonlySet<string> = new Set<ReferencedPlural>(["persistentvolumeclaims", "serviceaccounts"]);

/** Decides a node's request by the Pods bound to it. */
export function decideNodeAccess(index: NodeIndex, node: string, verb: string, target: AccessTarget): Decision {
  if (!("resource" in target)) return denied("");
  const decision = target.group === "" ? decideCore(index, node, verb, target) : decideLease(node, verb, target);
  if (decision !== undefined) return decision;
  const { resource, subresource = "" } = target;
  const full = subresource === "" ? resource : `${resource}/${subresource}`;
  const isCommon = commonRules.some(
    ([group, resources, verbs]) => group === target.group && resources.includes(full) && verbs.includes(verb),
  );
  return isCommon ? allowed(node) : denied("");
}

const leaseVerbs = ["get", "create", "update", "patch", "delete"];

/** Decides access to the node's Lease; undefined for other resources. Admission checks the name of a new Lease. */
function decideLease(node: string, verb: string, target: ResourceTarget): Decision | undefined {
  const { group, resource, subresource = "", namespace, name = "" } = target;
  if (group !== "coordination.k8s.io" || resource !== "leases" || subresource !== "") return undefined;
  if (!leaseVerbs.includes(verb)) return denied("can only get, create, update, patch, or delete a node lease");
  if (namespace !== "kube-node-lease") return denied('can only access leases in the "kube-node-lease" system namespace');
  if (verb !== "create" && name !== node) return denied("can only access node lease with the same name as the requesting node");
  return allowed(node);
}

/** Decides access to resources that Pods reference; undefined for others. */
function decideCore(index: NodeIndex, node: string, verb: string, target: ResourceTarget): Decision | undefined {
  const { resource, subresource = "", namespace = "", name = "" } = target;
  if (resource === "serviceaccounts" && subresource === "token") {
    if (verb !== "create") return denied("can only create tokens for individual service accounts");
    return related(node, name !== "" && index.isReferenced(node, "serviceaccounts", namespace, name));
  }
  if (subresource !== "") return undefined;
  if (followed.has(resource) || readOnce.has(resource)) {
    const verbs = followed.has(resource) ? readVerbs : ["get"];
    if (!verbs.includes(verb)) return denied("can only read resources of this type");
    if (name === "") return denied("No Object name found");
    return related(node, index.isReferenced(node, resource as ReferencedPlural, namespace, name));
  }
  if (resource === "persistentvolumes") {
    if (verb !== "get") return denied("can only get individual resources of this type");
    return related(node, index.isVolumeReferenced(node, name));
  }
  if (resource === "nodes" && readVerbs.includes(verb)) {
    return name === node ? allowed(node) : denied(`node '${node}' cannot read '${name}', only its own Node object`);
  }
  if (resource === "pods" && verb === "get") return related(node, index.hasPod(node, namespace, name));
  if (resource === "pods" && (verb === "list" || verb === "watch")) {
    return selectedValue(target.fieldSelector ?? "", "spec.nodeName") === node
      ? allowed(node)
      : denied("can only list/watch pods with spec.nodeName field selector");
  }
  return undefined;

  function related(of: string, isRelated: boolean): Decision {
    return isRelated ? allowed(of) : denied(`no relationship found between node '${of}' and this object`);
  }
}

function allowed(node: string): Decision {
  return { allowed: true, reason: `node: allowed for node ${JSON.stringify(node)}` };
}

function denied(reason: string): Decision {
  return { allowed: false, reason };
}
