import { isJsonObject, statusError } from "@keelson/api-machinery";
import type { AdmissionStep } from "../../admission/admission.ts";
import type { UserInfo } from "../../registry/served-resource.ts";
import type { Store } from "../../storage/store.ts";
import type { Authorizer } from "../rbac/rbac-authorizer.ts";
import type { Evaluate } from "../reviews/review-kinds.ts";
import { decideNodeAccess } from "./node-access.ts";
import { NodeIndex } from "./node-index.ts";
import { restrictNode } from "./node-restriction.ts";

/** The group of all nodes. */
const nodesGroup = "system:nodes";

const userPrefix = "system:node:";

/** The name of the node that a user represents; undefined for other users. */
function nodeOf(user: UserInfo): string | undefined {
  if (!user.username.startsWith(userPrefix) || !user.groups.includes(nodesGroup)) return undefined;
  return user.username.slice(userPrefix.length) || undefined;
}

/** The permissions of nodes beyond RBAC, and restrictions that RBAC cannot lift. */
export interface NodeRights {
  /** Allows what RBAC or the node's own permissions allow. */
  readonly authorizer: Authorizer;
  /** Restricts nodes to their own objects (admission plugin NodeRestriction). */
  readonly admission: AdmissionStep;
  /** Restricts nodes to tokens bound to one of their Pods. */
  guardTokens(requestToken: Evaluate): Evaluate;
  close(): void;
}

/**
 * Creates the permissions of nodes, that is, users `system:node:NAME` in the group `system:nodes` (Kubernetes' node authorizer). A node may read
 * its Node and the ConfigMaps and Secrets (by name, also as a watch), claims, volumes and service accounts that Pods bound to it reference,
 * and request tokens for these accounts. Its other permissions are restricted to its own objects by admission. A Pod counts from the moment its
 * binding is stored.
 */
export function createNodeRights(store: Pick<Store, "list" | "watch" | "get">, rbac: Authorizer): NodeRights {
  const index = new NodeIndex(store);
  return {
    authorizer: {
      ...rbac,
      authorize(user, verb, target) {
        const decision = rbac.authorize(user, verb, target);
        const node = decision.allowed ? undefined : nodeOf(user);
        return node === undefined ? decision : decideNodeAccess(index, node, verb, target);
      },
    },
    admission: {
      name: "NodeRestriction",
      validate(request) {
        const node = nodeOf(request.user);
        if (node !== undefined) restrictNode(store, node, request);
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
