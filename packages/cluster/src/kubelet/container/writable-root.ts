import { join } from "node:path";
import type { UserIds } from "@keelson/execution";
import { measureDiskUsage } from "../eviction/disk-usage.ts";
import { measureOwnBytes } from "../eviction/own-bytes.ts";
import { storageLimits } from "../eviction/storage-decision.ts";
import type { NodeContext } from "../node-context.ts";
import type { ContainerView, PodView } from "../pod/pod-view.ts";
import { removePodFolder } from "../volumes/memory-volumes.ts";
import { mountRootOverlay } from "../volumes/root-overlay.ts";
import type { ContainerSetup } from "./container-program.ts";

/** One attempt to run a container. */
interface RootRequest {
  readonly node: NodeContext;
  readonly pod: PodView;
  readonly container: ContainerView;
  readonly attempt: number;
  readonly setup: Pick<ContainerSetup, "driver" | "image">;
}

/**
 * A writable copy of the root of a container's image, in the Pod's directory. Undefined if the container keeps the image's own, read-only:
 * it asks for that, or the node cannot mount.
 */
export async function writableRoot(
  { node, pod, container, attempt, setup: { driver, image } }: RootRequest,
  owner: UserIds | undefined,
): Promise<string | undefined> {
  const isReadOnly = container.securityContext?.readOnlyRootFilesystem === true;
  if (driver !== "bubblewrap" || image === undefined || !("root" in image) || isReadOnly || !node.canMount) return undefined;
  const parent = join(node.podsDir, pod.metadata.uid ?? "", "roots");
  await removePodFolder(join(parent, `${container.name}.${attempt - 1}`));
  try {
    const folder = join(parent, `${container.name}.${attempt}`);
    const measure = storageLimits(pod) && ((path: string) => measureOwnBytes(measureDiskUsage(node.clock), path));
    return await mountRootOverlay({ image: image.root, folder, owner, measure });
  } catch (error) {
    const { namespace, name } = pod.metadata;
    const fields = { pod: `${namespace}/${name}`, container: container.name };
    node.log.warn({ ...fields, error }, "the root file system of a container is read-only");
    return undefined;
  }
}
