import { privateUserOf, type UserIds } from "@keelson/execution";
import type { NodeContext } from "../node-context.ts";
import type { PodView } from "../pod/pod-view.ts";

/** A host user id that owns nothing on the node but the files of its Pods. */
export interface PrivatePodUser {
  /** `Isolation.userScope` of the Pods' programs. */
  readonly scope: string;
  readonly ids: UserIds;
}

/**
 * The host user of the containers of a Pod that run as root, or undefined if that is the node's own user. In bubblewrap, root without
 * capabilities would still own all files of the host's root, and be root to servers on abstract sockets. So these containers run as an
 * unprivileged user id that appears as root inside. The Pods of a namespace share it, because they share volumes.
 *
 * Pods with host paths, which only users with permission to run processes can create, keep the node's user. So do all Pods of a node
 * that cannot change users.
 */
export function privatePodUser(
  { metadata, spec }: PodView,
  handler: string | undefined,
  node: Pick<NodeContext, "canMount">,
): PrivatePodUser | undefined {
  if (handler !== "bubblewrap" || !node.canMount) return undefined;
  if (spec.volumes?.some(({ hostPath }) => hostPath !== undefined) === true) return undefined;
  const scope = `pods/${metadata.namespace ?? ""}`;
  return { scope, ids: privateUserOf(scope) };
}
