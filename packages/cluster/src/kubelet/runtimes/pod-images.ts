import {
  type ContainerdImages,
  type ContainerImage,
  parseDockerCredentials,
  parseImageReference,
  pullImage,
  type PullOptions,
  type UnpackedImage,
} from "@keelson/execution";
import type { ContainerView, PodView } from "../pod/pod-view.ts";
import { ContainerError } from "../container/container-error.ts";

/** An image of a container: a containerd's, or one whose files are in the directory `root`. */
export type PodImage = ContainerImage | UnpackedImage;

/** The images of a runtime by full name. */
export interface PodImages {
  find(name: string): Promise<ContainerImage | undefined>;
  /** Pulls an image from its registry. Rejects with an ImageError. */
  pull(name: string, credentials?: Credentials): Promise<ContainerImage>;
}

/** Finds the account for a registry. */
export type Credentials = NonNullable<PullOptions["credentials"]>;

/** Records an image event. */
export type ImageEvent = (reason: "Pulling" | "Pulled", note: string) => void;

/**
 * Resolves the image of a container by its `imagePullPolicy`: `Always` pulls on every start, `IfNotPresent` (default) pulls if it is
 * missing, `Never` never pulls.
 *
 * @throws ContainerError
 */
export async function containerImage(
  container: ContainerView,
  images: PodImages,
  onEvent: ImageEvent,
  now: () => number,
  credentials: () => Promise<Credentials | undefined> = () => Promise.resolve(undefined),
): Promise<ContainerImage> {
  const image = container.image ?? "";
  const quoted = JSON.stringify(image);
  let name: string;
  try {
    ({ name } = parseImageReference(image));
  } catch (error) {
    throw new ContainerError("InvalidImageName", `Failed to apply default image tag ${quoted}: ${messageOf(error)}`, {
      cause: error,
    });
  }
  const policy = container.imagePullPolicy ?? "IfNotPresent";
  const present = policy === "Always" ? undefined : await images.find(name);
  if (present !== undefined) {
    onEvent("Pulled", `Container image ${quoted} already present on machine`);
    return present;
  }
  if (policy === "Never") {
    throw new ContainerError("ErrImageNeverPull", `Container image ${quoted} is not present with pull policy of Never`);
  }
  onEvent("Pulling", `Pulling image ${quoted}`);
  const startedAt = now();
  try {
    const pulled = await images.pull(name, await credentials());
    onEvent("Pulled", `Successfully pulled image ${quoted} in ${((now() - startedAt) / 1000).toFixed(3)}s`);
    return pulled;
  } catch (error) {
    throw new ContainerError("ErrImagePull", `Failed to pull image ${quoted}: ${messageOf(error)}`, { cause: error });
  }
}

/** The images of a containerd. Concurrent anonymous pulls of an image are shared; pulls with credentials are not. */
export function createContainerdPodImages(
  images: ContainerdImages,
  options: { readonly temporary: string; readonly socket: string; readonly fetch: PullOptions["fetch"] },
): PodImages {
  const { temporary, socket, fetch } = options;
  const pulls = new Map<string, Promise<ContainerImage>>();
  const pullOne = async (name: string, credentials: Credentials | undefined): Promise<ContainerImage> => {
    const image = await pullImage(name, { temporary, fetch, ...(credentials !== undefined && { credentials }) });
    try {
      return await images.add(name, image);
    } finally {
      await image.close();
    }
  };
  return {
    find: (name) =>
      images.find(name).catch((error: unknown) => {
        throw new ContainerError("CreateContainerError", `containerd does not respond on ${socket}: ${messageOf(error)}`, {
          cause: error,
        });
      }),
    pull(name, credentials) {
      if (credentials !== undefined) return pullOne(name, credentials);
      const running = pulls.get(name) ?? pullOne(name, undefined).finally(() => pulls.delete(name));
      pulls.set(name, running);
      return running;
    },
  };
}

/**
 * The accounts in a Pod's `imagePullSecrets`; for each registry the first Secret wins. `undefined` if there are none. Missing Secrets
 * and Secrets of another type are skipped, as in Kubernetes.
 */
export async function pullCredentials(
  pod: PodView,
  secret: (name: string) => Promise<ReadonlyMap<string, Uint8Array> | undefined>,
): Promise<Credentials | undefined> {
  const { imagePullSecrets = [] } = pod.spec as { readonly imagePullSecrets?: readonly { readonly name?: string }[] };
  const found: Credentials[] = [];
  for (const { name = "" } of imagePullSecrets) {
    const data = await secret(name);
    const file = data?.get(".dockerconfigjson");
    const old = data?.get(".dockercfg");
    try {
      if (file !== undefined) found.push(parseDockerCredentials(Buffer.from(file).toString("utf8")));
      else if (old !== undefined) found.push(parseDockerCredentials(`{"auths":${Buffer.from(old).toString("utf8")}}`));
    } catch {
      // Treated as a Secret without accounts; the registry's response then names what is missing.
    }
  }
  if (found.length === 0) return undefined;
  return (registry) => found.map((each) => each(registry)).find((account) => account !== undefined);
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
