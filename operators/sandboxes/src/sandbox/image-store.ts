import { ImageError, parseImageReference, type UnpackedImages } from "@keelson/execution";
import { hostImage } from "../api/names.ts";

/** An image on this machine. */
export interface ReadyImage {
  /** Directory that becomes the root; absent for the machine's own programs. */
  readonly root?: string;
  /** The image's default command. */
  readonly entrypoint: readonly string[];
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly workingDir?: string;
}

/** The images on a machine. */
export interface ImageStore {
  /** Finds an image on this machine. Never pulls. */
  find(image: string): ReadyImage | undefined;
  /** Names of the images on this machine. */
  list(): readonly string[];
}

/** The `host` image: the machine's own programs. */
export const hostImages: ImageStore = {
  find: (image) => (normalizeImage(image) === hostImage ? { entrypoint: [], command: ["/bin/sh"], env: {} } : undefined),
  list: () => [hostImage],
};

/** The `host` image and the unpacked images. */
export function localImages(unpacked: UnpackedImages): ImageStore {
  return {
    find(name) {
      const image = unpacked.find(normalizeImage(name));
      if (image === undefined) return hostImages.find(name);
      const { root, entrypoint, command, env, workingDir = "/" } = image;
      return { root, entrypoint, command, env, ...(workingDir !== "/" && { workingDir }) };
    },
    list: () => [...hostImages.list(), ...unpacked.list().map(({ name }) => name)],
  };
}

/** The full name of an image, so that short and full names compare equal; keeps `host` and invalid names unchanged. */
export function normalizeImage(image: string): string {
  if (image === hostImage) return image;
  try {
    return parseImageReference(image).name;
  } catch (error) {
    if (error instanceof ImageError) return image;
    throw error;
  }
}
