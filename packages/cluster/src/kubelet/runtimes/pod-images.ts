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

/** An image of a container: a containerd's, or one whose files are in the folder `root`. */
export type PodImage = ContainerImage | UnpackedImage;

/** The images of a runtime, by their full names. */
export interface PodImages {
  find(name: string): Promise<ContainerImage | undefined>;
  /** Fetches an image from its registry, with the account that `credentials` has there. Rejects with an ImageError. */
  pull(name: string, credentials?: Credentials): Promise<ContainerImage>;
}

/** Accounts at registries. */
export type Credentials = NonNullable<PullOptions["credentials"]>;

/** Why a container's image is not there, in Kubernetes' words. */
export class ImageProblem extends Error {
  override readonly name = "ImageProblem";
  /** The image can be pulled later: `ErrImagePull`. It never will be: the others. */
  readonly reason: "ErrImagePull" | "ErrImageNeverPull" | "InvalidImageName";

  constructor(reason: ImageProblem["reason"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
  }
}

/** What happens to an image, for events. */
export type ImageNews = (reason: "Pulling" | "Pulled", note: string) => void;

/**
 * The image of a container, by its `imagePullPolicy`: `Always` asks the registry at every start, `IfNotPresent` (the default here)
 * where the image is not there, `Never` not at all.
 *
 * @throws ImageProblem
 */
export async function containerImage(
  container: ContainerView,
  images: PodImages,
  tell: ImageNews,
  now: () => number,
  credentials: () => Promise<Credentials | undefined> = () => Promise.resolve(undefined),
): Promise<ContainerImage> {
  const image = container.image ?? "";
  const shown = JSON.stringify(image);
  let name: string;
  try {
    ({ name } = parseImageReference(image));
  } catch (error) {
    throw new ImageProblem("InvalidImageName", `Failed to apply default image tag ${shown}: ${messageOf(error)}`, {
      cause: error,
    });
  }
  const policy = container.imagePullPolicy ?? "IfNotPresent";
  const present = policy === "Always" ? undefined : await images.find(name);
  if (present !== undefined) {
    tell("Pulled", `Container image ${shown} already present on machine`);
    return present;
  }
  if (policy === "Never") {
    throw new ImageProblem("ErrImageNeverPull", `Container image ${shown} is not present with pull policy of Never`);
  }
  tell("Pulling", `Pulling image ${shown}`);
  const began = now();
  try {
    const pulled = await images.pull(name, await credentials());
    tell("Pulled", `Successfully pulled image ${shown} in ${((now() - began) / 1000).toFixed(3)}s`);
    return pulled;
  } catch (error) {
    throw new ImageProblem("ErrImagePull", `Failed to pull image ${shown}: ${messageOf(error)}`, { cause: error });
  }
}

/** Images of a containerd; what several containers ask for at once is fetched once, by those with an account each by itself. */
export function createContainerdPodImages(images: ContainerdImages, temporary: string, socket: string): PodImages {
  const pulls = new Map<string, Promise<ContainerImage>>();
  const fetchOne = async (name: string, credentials: Credentials | undefined): Promise<ContainerImage> => {
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
        throw new Error(`containerd does not answer on ${socket}: ${messageOf(error)}`, { cause: error });
      }),
    pull(name, credentials) {
      if (credentials !== undefined) return fetchOne(name, credentials);
      const running = pulls.get(name) ?? fetchOne(name, undefined).finally(() => pulls.delete(name));
      pulls.set(name, running);
      return running;
    },
  };
}

/**
 * The accounts of a Pod's `imagePullSecrets`, those of the first Secret that has one for a registry; `undefined` where it has none. Secrets
 * that are missing, or of another type, are left out, as in Kubernetes.
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
      // As one without accounts: the registry says what is missing.
    }
  }
  if (found.length === 0) return undefined;
  return (registry) => found.map((each) => each(registry)).find((account) => account !== undefined);
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
