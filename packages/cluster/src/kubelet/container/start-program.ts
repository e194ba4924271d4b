import type { Program } from "@keelson/execution";
import { type ContainerSetup, containerProgram } from "./container-program.ts";
import { ignoredFields } from "../pod/admission/ignored-fields.ts";
import type { NodeContext } from "../node-context.ts";
import { containerImage, pullCredentials } from "../runtimes/pod-images.ts";
import type { PodRuntime } from "../runtimes/pod-runtimes.ts";
import { runtimeHandler } from "../runtimes/runtime-classes.ts";
import type { ContainerView, PodView } from "../pod/pod-view.ts";
import { ContainerError } from "./container-error.ts";

/**
 * Starts an attempt of a container, pulling its image if its runtime has images. Returns `undefined` if `signal` fires first.
 *
 * @throws ContainerError
 */
export async function startProgram(
  node: NodeContext,
  pod: PodView,
  container: ContainerView,
  attempt: number,
  addresses: Pick<ContainerSetup, "podIP" | "volumes">,
  signal: AbortSignal,
): Promise<Program | undefined> {
  const { driver, images, unpacked } = await runtimeOf(node, pod);
  const ignored = attempt > 0 || container !== pod.spec.containers[0] ? [] : ignoredFields(pod, driver.name);
  if (ignored.length > 0) {
    const note = `runtime ${driver.name} does not honour ${ignored.join(", ")}`;
    node.events.event(pod, { type: "Warning", reason: "FieldsIgnored", note });
  }
  const onImage = (reason: string, note: string): void => node.events.event(pod, { type: "Normal", reason, note });
  const image = !container.image
    ? undefined
    : images === undefined
      ? unpacked?.find(container.image)
      : await containerImage(
          container,
          images,
          onImage,
          () => node.clock.monotonic(),
          () => pullCredentials(pod, (name) => node.objects.secret(pod.metadata.namespace ?? "", name)),
        );
  const spec = await containerProgram(node, pod, container, attempt, { ...addresses, driver: driver.name, image });
  return signal.aborted ? undefined : driver.start(spec);
}

/** The runtime of a Pod. */
async function runtimeOf(node: NodeContext, pod: PodView): Promise<PodRuntime> {
  const handler = await runtimeHandler(node, pod);
  const { runtimeClassName: name } = pod.spec;
  if (handler === undefined) throw new ContainerError("CreateContainerError", `RuntimeClass ${JSON.stringify(name)} not found`);
  const runtime = node.runtimes.get(handler);
  if (runtime !== undefined) return runtime;
  throw new ContainerError(
    "CreateContainerError",
    `no runtime for ${JSON.stringify(handler)} is configured: this node has ${node.runtimes.names.join(", ")}`,
  );
}
