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
 * The isolation of a program: in `own.root`, a writable copy of its image's root, else in its image or in the machine's own file system,
 * read-only. It uses the network of `own.namespace`, else the machine's.
 */
export function isolatedParts(
  pod: PodView,
  container: ContainerView,
  mounts: readonly Mount[],
  image: PodImage | undefined,
  own: {
    readonly namespace?: string | undefined;
    readonly root?: string | undefined;
    readonly ipcParameters?: Isolation["ipcParameters"];
  } = {},
): Pick<ProgramSpec, "cwd"> & { readonly isolation: Isolation } {
  const hostname = (pod.spec.hostname ?? pod.metadata.name ?? "").slice(0, 63).replace(/[-.]+$/, "");
  const cwd = container.workingDir || (image === undefined ? undefined : (image.workingDir ?? "/"));
  return {
    ...(cwd === undefined ? {} : { cwd }),
    isolation: {
      hasCgroupView: true,
      ...(own.root !== undefined ? { root: own.root, isRootWritable: true } : imageOf(image)),
      ...(own.ipcParameters !== undefined && { ipcParameters: own.ipcParameters }),
      ...(pod.spec.hostNetwork === true || hostname === "" ? {} : { hostname }),
      ...(container.securityContext?.readOnlyRootFilesystem === true && { isRootReadOnly: true }),
      ...(own.namespace !== undefined && { network: "none" as const, networkNamespace: own.namespace }),
      binds: mounts
        .filter(({ source }) => existsSync(source))
        .map(({ source, path, readOnly }) => ({ source, target: path, isWritable: !readOnly })),
    },
  };
}

const imageOf = (image: PodImage | undefined): Pick<Isolation, "root" | "image"> =>
  image === undefined ? {} : "root" in image ? { root: image.root } : { image: image.name };
