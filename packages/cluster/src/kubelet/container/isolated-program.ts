import { existsSync } from "node:fs";
import type { Isolation, ProgramSpec } from "@keelson/execution";
import { ContainerConfigError } from "./environment.ts";
import type { PodImage } from "../runtimes/pod-images.ts";
import type { Mount } from "../volumes/mount-plan.ts";
import type { ContainerView, PodView } from "../pod/pod-view.ts";

/** What a container runs, before its variables are filled in: its own words, else its image's, by Kubernetes' rules. */
export function imageWords(container: ContainerView, image: PodImage): readonly string[] {
  const { command = [], args = [] } = container;
  if (command.length > 0) return [...command, ...args];
  const words = [...image.entrypoint, ...(args.length > 0 ? args : image.command)];
  if (words.length > 0) return words;
  throw new ContainerConfigError(
    `container ${JSON.stringify(container.name)} has no command, and its image ${JSON.stringify(container.image)} none either: set spec.containers[].command`,
  );
}

/**
 * The parts of a program that runs apart from the machine: in its image, or with the machine's own programs, read-only. Its
 * network is the machine's, as with every Pod here.
 *
 * @throws ContainerConfigError
 */
export function isolatedParts(
  pod: PodView,
  container: ContainerView,
  mounts: readonly Mount[],
  image: PodImage | undefined,
): Pick<ProgramSpec, "cwd"> & { readonly isolation: Isolation } {
  const hostname = (pod.spec.hostname ?? pod.metadata.name ?? "").slice(0, 63).replace(/[-.]+$/, "");
  const cwd = container.workingDir || (image === undefined ? undefined : (image.workingDir ?? "/"));
  return {
    ...(cwd === undefined ? {} : { cwd }),
    isolation: {
      ...(image === undefined ? {} : "root" in image ? { root: image.root } : { image: image.name }),
      ...(pod.spec.hostNetwork === true || hostname === "" ? {} : { hostname }),
      ...(container.securityContext?.readOnlyRootFilesystem === true && { isRootReadOnly: true }),
      binds: mounts
        .filter(({ source }) => existsSync(source))
        .map(({ source, path, readOnly }) => ({ source, target: path, isWritable: !readOnly })),
    },
  };
}
