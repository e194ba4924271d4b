import type { ContainerImage, ProgramSpec } from "@keelson/execution";
import { RobotsError } from "../../robots-error.ts";
import type { DockerPolicy } from "../policy/docker-policy.ts";
import type { ContainerOrder } from "./container-order.ts";

/** Where a container has its task's directory. */
const taskFolderInside = "/task";

/**
 * The part of a program's spec that makes it a container. `dir` is the task's directory.
 *
 * **Errors**: {@link RobotsError} with the code `InvalidContainer` if neither the task nor the image has a command.
 */
export function containerProgram(
  container: ContainerOrder,
  { image, dir, policy }: { readonly image: ContainerImage; readonly dir: string; readonly policy: DockerPolicy | undefined },
): Required<Pick<ProgramSpec, "command" | "cwd" | "isolation">> {
  const { command, args, workDir = image.workingDir ?? "/", network = policy?.network ?? "none", volumes } = container;
  return {
    command: commandOf(image, command, args),
    cwd: workDir,
    isolation: {
      image: image.name,
      network,
      binds: [
        ...volumes.map(({ source, target, isWritable }) => ({ source, target, ...(isWritable && { isWritable }) })),
        { source: dir, target: taskFolderInside, isWritable: true },
      ],
    },
  };
}

/** As in Kubernetes: a command replaces both the entry point and the arguments of the image, and args replace its arguments. */
function commandOf(image: ContainerImage, command: readonly string[], args: readonly string[]): readonly [string, ...string[]] {
  const start = command.length > 0 ? command : image.entrypoint;
  const [first, ...rest] = [...start, ...(args.length > 0 || command.length > 0 ? args : image.command)];
  if (first !== undefined) return [first, ...rest];
  throw new RobotsError(
    "InvalidContainer",
    `spec.config.dockerConfig.command: neither the task nor the image ${image.name} has one`,
  );
}
