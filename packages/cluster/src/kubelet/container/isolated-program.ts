import { existsSync } from "node:fs";
import type { Isolation, ProgramSpec } from "@keelson/execution";
import { configError } from "./container-error.ts";
import type { PodImage } from "../runtimes/pod-images.ts";
import type { Mount } from "../volumes/mount-plan.ts";
import type { ContainerView, PodView } from "../pod/pod-view.ts";

/** The command of a container before variable expansion: its own, else its image's, by Kubernetes' rules. */
export function imageCommand(container: ContainerView, image: PodImage): readonly string[] {
  const { command = [], args = [] } = container;
  if (command.length > 0) return [...command, ...args];
  const words = [...image.entrypoint, ...(args.length > 0 ? args : image.command)];
  if (words.length > 0) return words;
  throw configError(
    `container ${JSON.stringify(container.name)} and its image ${JSON.stringify(container.image)} have no command: set spec.containers[].command`,
  );
}

/**
 * The isolation of a program: in its image, or in the machine's own file system, read-only. It uses the Pod's network namespace, else
 * the machine's network.
 */
export function isolatedParts(
  pod: PodView,
  container: ContainerView,
  mounts: readonly Mount[],
  image: PodImage | undefined,
  networkNamespace?: string,
): Pick<ProgramSpec, "cwd"> & { readonly isolation: Isolation } {
  const hostname = (pod.spec.hostname ?? pod.metadata.name ?? "").slice(0, 63).replace(/[-.]+$/, "");
  const cwd = container.workingDir || (image === undefined ? undefined : (image.workingDir ?? "/"));
  return {
    ...(cwd === undefined ? {} : { cwd }),
    isolation: {
      ...(image === undefined ? {} : "root" in image ? { root: image.root } : { image: image.name }),
      ...(pod.spec.hostNetwork === true || hostname === "" ? {} : { hostname }),
      ...(container.securityContext?.readOnlyRootFilesystem === true && { isRootReadOnly: true }),
      ...(networkNamespace !== undefined && { network: "none" as const, networkNamespace }),
      binds: mounts
        .filter(({ source }) => existsSync(source))
        .map(({ source, path, readOnly }) => ({ source, target: path, isWritable: !readOnly })),
    },
  };
}
