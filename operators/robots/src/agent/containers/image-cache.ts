import { readFile } from "node:fs/promises";
import { isJsonObject, parseJsonObject } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { ContainerdImages } from "@keelson/execution";
import { writeFileAtomic } from "@keelson/execution/files";
import type { DockerPolicy } from "../policy/docker-policy.ts";

/** An image that the agent has pulled. */
export interface PulledImage {
  /** Size of its layers as they were downloaded. */
  readonly bytes: number;
  /** When a task was given the image last, by the wall clock. */
  readonly usedAt: number;
}

type PulledImages = Readonly<Record<string, PulledImage>>;

/** An image that a task was just given is about to be used, although no program has it yet. */
const startMs = 600_000;

/**
 * The images to remove: those that were not used for too long, and then those that were used longest ago until the rest is within the limit. Never one that is
 * in use.
 */
export function unusedImages(
  images: PulledImages,
  inUse: ReadonlySet<string>,
  { cacheBytes, unusedImageMs }: Pick<DockerPolicy, "cacheBytes" | "unusedImageMs">,
  now: number,
): readonly string[] {
  let bytes = Object.values(images).reduce((sum, image) => sum + image.bytes, 0);
  const removed: string[] = [];
  for (const [name, image] of Object.entries(images).sort(([, a], [, b]) => a.usedAt - b.usedAt)) {
    if (inUse.has(name) || (now - image.usedAt < unusedImageMs && bytes <= cacheBytes)) continue;
    removed.push(name);
    bytes -= image.bytes;
  }
  return removed;
}

/** Options of {@link ImageCache.open}. */
export interface ImageCacheOptions {
  /** File with the images that were pulled. */
  readonly file: string;
  readonly images: Pick<ContainerdImages, "remove">;
  readonly policy: Pick<DockerPolicy, "cacheBytes" | "unusedImageMs">;
  readonly clock: Pick<Clock, "now" | "monotonic">;
}

/** Removes images that the agent has pulled and that are no longer used. Images that the owner has imported stay. */
export class ImageCache {
  readonly #options: ImageCacheOptions;
  readonly #given = new Map<string, number>();
  #pulled: PulledImages;

  private constructor(options: ImageCacheOptions, pulled: PulledImages) {
    this.#options = options;
    this.#pulled = pulled;
  }

  /** Reads which images were pulled. If the file is missing or damaged, earlier images stay. */
  static async open(options: ImageCacheOptions): Promise<ImageCache> {
    const stored = parseJsonObject(await readFile(options.file, "utf8").catch(() => "")) ?? {};
    const pulled = Object.entries(stored).flatMap(([name, image]) => (isPulled(image) ? [[name, image] as const] : []));
    return new ImageCache(options, Object.fromEntries(pulled));
  }

  /** Records that an image was pulled. */
  async pulled(name: string, bytes: number): Promise<void> {
    await this.#store({ ...this.#pulled, [name]: { bytes, usedAt: this.#options.clock.now() } });
  }

  /** Records that a task is given an image. */
  async given(name: string): Promise<void> {
    const { clock } = this.#options;
    this.#given.set(name, clock.monotonic());
    const image = Object.hasOwn(this.#pulled, name) ? this.#pulled[name] : undefined;
    if (image !== undefined) await this.#store({ ...this.#pulled, [name]: { ...image, usedAt: clock.now() } });
  }

  /** Removes images that are not in use, as the policy says. Returns their names. */
  async collect(inUse: ReadonlySet<string>): Promise<readonly string[]> {
    const { images, policy, clock } = this.#options;
    for (const [name, at] of this.#given) if (clock.monotonic() - at >= startMs) this.#given.delete(name);
    const removed = unusedImages(this.#pulled, new Set([...inUse, ...this.#given.keys()]), policy, clock.now());
    for (const name of removed) {
      await images.remove(name);
      const { [name]: _, ...rest } = this.#pulled;
      await this.#store(rest);
    }
    return removed;
  }

  async #store(pulled: PulledImages): Promise<void> {
    this.#pulled = pulled;
    // On a full disk the next agent does not know it, and keeps the image longer or forever.
    await writeFileAtomic(this.#options.file, JSON.stringify(pulled), { durable: false }).catch(() => {});
  }
}

function isPulled(image: unknown): image is PulledImage {
  return isJsonObject(image) && typeof image.bytes === "number" && typeof image.usedAt === "number";
}
