import { ImageError, parseImageReference } from "@keelson/execution";
import { invalid, names } from "./policy-fields.ts";

/** Completes a prefix to a name. With two parts, so that `docker.io/` is not that of `docker.io/library/`. */
const anyRepository = "x/x";

/**
 * Reads the `docker.images` field of a policy. Short names become full ones, such as `docker.io/library/busybox:1` for `busybox:1`. Undefined:
 * any image.
 *
 * **Errors**: `RobotsError` with the code `InvalidPolicy`, which names the entry.
 */
export function readAllowedImages(value: unknown): readonly string[] | undefined {
  const field = "docker.images";
  return names(value, field)?.map((entry) => {
    try {
      return fullEntry(entry);
    } catch (error) {
      if (!(error instanceof ImageError)) throw error;
      throw invalid(
        field,
        entry,
        "must be the name of an image, with or without a tag or digest, or a prefix that ends with /",
      );
    }
  });
}

function fullEntry(entry: string): string {
  if (entry.endsWith("/")) {
    const { name } = parseImageReference(`${entry}${anyRepository}:0`);
    return name.slice(0, -`${anyRepository}:0`.length);
  }
  const { name, version } = parseImageReference(entry);
  const hasVersion = /[:@]/.test(entry.slice(entry.lastIndexOf("/") + 1));
  return hasVersion ? name : withoutVersion(name, version);
}

/**
 * Whether a policy allows an image. `allowed` is what {@link readAllowedImages} returned: an entry that ends with `/` allows the images below it,
 * one with a tag or digest that image, and any other entry all tags and digests of its image.
 */
export function isAllowedImage(allowed: readonly string[], image: string): boolean {
  const { name, version } = parseImageReference(image);
  const repository = withoutVersion(name, version);
  return allowed.some((entry) => (entry.endsWith("/") ? name.startsWith(entry) : entry === name || entry === repository));
}

const withoutVersion = (name: string, version: string): string => name.slice(0, -(version.length + 1));
