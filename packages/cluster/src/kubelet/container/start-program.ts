import type { Program } from "@keelson/execution";
import { type ContainerPlace, containerProgram } from "./container-program.ts";
import { ignoredFields } from "../pod/ignored-fields.ts";
import type { NodeContext } from "../node-context.ts";
import { containerImage, pullCredentials } from "../runtimes/pod-images.ts";
import type { PodRuntime } from "../runtimes/pod-runtimes.ts";
import type { ContainerView, PodView } from "../pod/pod-view.ts";

/**
 * Starts an attempt of a container, with its image where its runtime has images. Answers `undefined` where `signal` fires first.
 *
 * @throws ContainerConfigError, ContainerStartError, ImageProblem, and an Error where the Pod's runtime is not there.
 */
export async function startProgram(
  node: NodeContext,
  pod: PodView,
  container: ContainerView,
  attempt: number,
  place: Pick<ContainerPlace, "podIP" | "volumes">,
  signal: AbortSignal,
): Promise<Program | undefined> {
  const { driver, images, unpacked } = await runtimeOf(node, pod);
  const ignored = attempt > 0 || container !== pod.spec.containers[0] ? [] : ignoredFields(pod, driver.name);
  if (ignored.length > 0) {
    const note = `runtime ${driver.name} does not honour ${ignored.join(", ")}`;
    node.events.event(pod, { type: "Warning", reason: "FieldsIgnored", note });
  }
  const tell = (reason: string, note: string): void => node.events.event(pod, { type: "Normal", reason, note });
  const image = !container.image
    ? undefined
    : images === undefined
      ? unpacked?.find(container.image)
      : await containerImage(
          container,
          images,
          tell,
          () => node.clock.monotonic(),
          () => pullCredentials(pod, (name) => node.objects.secret(pod.metadata.namespace ?? "", name)),
        );
  const spec = await containerProgram(node, pod, container, attempt, { ...place, driver: driver.name, image });
  return signal.aborted ? undefined : driver.start(spec);
}

/** What runs a Pod's programs: what its RuntimeClass says, else processes of this machine. */
async function runtimeOf({ runtimes, objects }: NodeContext, pod: PodView): Promise<PodRuntime> {
  const { runtimeClassName: name } = pod.spec;
  const handler = name === undefined ? "process" : await objects.runtimeHandler(name);
  if (handler === undefined) throw new Error(`RuntimeClass ${JSON.stringify(name)} not found`);
  const runtime = runtimes.get(handler);
  if (runtime !== undefined) return runtime;
  throw new Error(`no runtime for ${JSON.stringify(handler)} is configured: this node has ${runtimes.names.join(", ")}`);
}
