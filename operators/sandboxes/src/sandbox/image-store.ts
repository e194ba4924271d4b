import { ImageError, parseImageReference, type UnpackedImages } from "@keelson/execution";
import { hostImage } from "../api/names.ts";

/** An image that is ready to run. */
export interface ReadyImage {
  /** Folder that becomes the root; absent for the machine's own programs. */
  readonly root?: string;
  /** What the image says to run where the sandbox says nothing. */
  readonly entrypoint: readonly string[];
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly workingDir?: string;
}

/** The images of a machine. */
export interface ImageStore {
  /** An image that is here, or undefined. Never fetches anything. */
  find(image: string): ReadyImage | undefined;
  /** Names of the images that are here. */
  list(): readonly string[];
}

/** The machine's own programs under the name `host`, and nothing else. */
export const hostImages: ImageStore = {
  find: (image) => (normalizeImage(image) === hostImage ? { entrypoint: [], command: ["/bin/sh"], env: {} } : undefined),
  list: () => [hostImage],
};

/** The machine's own programs, and images that are unpacked. */
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

/** The full name of an image, so that two ways to write one are one; `host` stays, and so does what is no name of an image. */
export function normalizeImage(image: string): string {
  if (image === hostImage) return image;
  try {
    return parseImageReference(image).name;
  } catch (error) {
    if (error instanceof ImageError) return image;
    throw error;
  }
}
