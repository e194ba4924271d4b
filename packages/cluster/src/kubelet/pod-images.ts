import {
  type ContainerdImages,
  type ContainerImage,
  parseImageReference,
  pullImage,
  type UnpackedImage,
} from "@keelson/execution";
import type { ContainerView } from "./pod-view.ts";

/** An image of a container: a containerd's, or one whose files are in the folder `root`. */
export type PodImage = ContainerImage | UnpackedImage;

/** The images of a runtime, by their full names. */
export interface PodImages {
  find(name: string): Promise<ContainerImage | undefined>;
  /** Fetches an image from its registry. Rejects with an ImageError. */
  pull(name: string): Promise<ContainerImage>;
}

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
export async function containerImage(container: ContainerView, images: PodImages, tell: ImageNews): Promise<ContainerImage> {
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
  try {
    const pulled = await images.pull(name);
    tell("Pulled", `Successfully pulled image ${shown}`);
    return pulled;
  } catch (error) {
    throw new ImageProblem("ErrImagePull", `Failed to pull image ${shown}: ${messageOf(error)}`, { cause: error });
  }
}

/** Images of a containerd; what several containers ask for at once is fetched once. */
export function createContainerdPodImages(images: ContainerdImages, temporary: string, socket: string): PodImages {
  const pulls = new Map<string, Promise<ContainerImage>>();
  const fetchOne = async (name: string): Promise<ContainerImage> => {
    const image = await pullImage(name, { temporary, fetch });
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
    pull(name) {
      const running = pulls.get(name) ?? fetchOne(name).finally(() => pulls.delete(name));
      pulls.set(name, running);
      return running;
    },
  };
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
