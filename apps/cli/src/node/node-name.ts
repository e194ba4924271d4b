import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { ignoreNotFound, isStatusError, type KubernetesObject, type ResourceType } from "@keelson/api-machinery";
import { Node } from "@keelson/api-machinery/kinds";
import { machineId, machineName } from "@keelson/cluster";
import type { Client } from "@keelson/client";
import { writeFileAtomic } from "@keelson/execution/files";
import { UsageError } from "@keelson/operator/flags";
import { NodeError } from "./node-error.ts";

/** authentication.k8s.io/v1 SelfSubjectReview. */
interface SelfSubjectReviewObject extends KubernetesObject {
  readonly status?: { readonly userInfo?: { readonly username?: string } };
}

const SelfSubjectReview: ResourceType<SelfSubjectReviewObject> = {
  group: "authentication.k8s.io",
  version: "v1",
  kind: "SelfSubjectReview",
  plural: "selfsubjectreviews",
  scope: "Cluster",
};

/** The user of a client. */
export async function whoAmI(client: Client): Promise<{ readonly username: string }> {
  const { status } = await client.create(SelfSubjectReview, { metadata: {} });
  return { username: status?.userInfo?.username ?? "" };
}

/**
 * The name of the node: that of the user, if it is a node, otherwise `requested` or the host name.
 *
 * **Errors**: `UsageError` if both differ.
 */
export function nameOf(
  username: string,
  requested: string | undefined,
): { readonly nodeName: string; readonly isNode: boolean } {
  const own = /^system:node:(.+)$/.exec(username)?.[1];
  if (own !== undefined && requested !== undefined && requested !== own) {
    throw new UsageError(`--name: the kubeconfig belongs to node ${own}`);
  }
  return { nodeName: own ?? requested ?? machineName(), isNode: own !== undefined };
}

/** Whether the cluster accepts the client's certificate: it may be that of another cluster. */
export async function isAccepted(client: Client): Promise<boolean> {
  try {
    await whoAmI(client);
    return true;
  } catch (error) {
    if (isStatusError(error, "Unauthorized")) return false;
    throw error;
  }
}

/** Rejects a name that another machine uses. The returned function records the name, to be called right before the Node is created. */
export async function claimName(client: Client, nodeName: string, dataDir: string): Promise<{ record(): Promise<void> }> {
  const file = join(dataDir, "node-name");
  const recorded = (await readFile(file, "utf8").catch(() => "")).trim();
  if (recorded !== "" && recorded !== nodeName) {
    throw new UsageError(`--name: this data directory belongs to node ${recorded}; choose another --data-dir for ${nodeName}`);
  }
  const node = await ignoreNotFound(client.get(Node, { name: nodeName }));
  const { machineID = "" } = node?.status?.nodeInfo ?? {};
  const isOwn = recorded === nodeName && (machineID === "" || machineID === machineId());
  if (node !== undefined && !isOwn) {
    throw new NodeError(
      "NameTaken",
      `node ${nodeName} already exists; choose another name with --name, or delete it first: kubectl delete node ${nodeName}`,
    );
  }
  return { record: () => writeFileAtomic(file, `${nodeName}\n`, { durable: true }) };
}
