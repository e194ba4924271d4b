import { existsSync, readdirSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "@keelson/api-machinery/time";
import {
  type ContainerdImages,
  type ContainerImage,
  createContainerdDriver,
  type Driver,
  ExecutionError,
  openContainerdImages,
  pullImage,
  readDockerCredentials,
} from "@keelson/execution";
import { RobotsError } from "../../robots-error.ts";
import type { DockerPolicy } from "../policy/docker-policy.ts";
import { ImageCache } from "./image-cache.ts";
import { PullQueue } from "./pull-queue.ts";

/** Options of {@link openAgentContainers}. */
export interface AgentContainersOptions {
  /** Directory of the containers. */
  readonly dir: string;
  readonly clock: Clock;
  readonly random: () => number;
  readonly policy: DockerPolicy;
}

/** Containers of a robot, and their images. */
export interface AgentContainers {
  readonly driver: Driver;
  /** Finds an image by its full name. Undefined if the robot does not have it. */
  find(name: string): Promise<ContainerImage | undefined>;
  /**
   * Finds an image by its full name, and pulls it if the robot does not have it.
   *
   * **Errors**: {@link RobotsError} with the code `ImageNotFound` if the policy forbids that; an `ImageError`, even if the pull takes
   * longer than the policy allows; `signal`'s reason.
   */
  image(name: string, signal: AbortSignal): Promise<ContainerImage>;
  /**
   * Removes images that were pulled and are no longer used, as the policy says. `wanted` are those of tasks that have no program now. Returns the
   * names of those that were removed. **Errors**: those of containerd.
   */
  collect(wanted: ReadonlySet<string>): Promise<readonly string[]>;
}

/**
 * Connects to containerd. Returns why containers cannot be used.
 *
 * **Errors**: `ExecutionError` with the code `Unsupported` if containerd does not respond although containers of the last agent may be
 * running: they would be reported as lost.
 */
export async function openAgentContainers(options: AgentContainersOptions): Promise<AgentContainers | string> {
  const { dir, clock, random, policy } = options;
  const containerd = policy.socket === undefined ? {} : { socket: policy.socket };
  try {
    const images = await openContainerdImages({ ...containerd, random, now: () => clock.now() });
    const driver = await createContainerdDriver({ ...containerd, dir: join(dir, "programs"), clock, random });
    const cache = await ImageCache.open({ file: join(dir, "images.json"), images, policy, clock });
    return new RobotContainers({ driver, images, cache }, options);
  } catch (error) {
    if (!(error instanceof ExecutionError && error.code === "Unsupported") || hasPrograms(join(dir, "programs"))) throw error;
    return error.message;
  }
}

function hasPrograms(dir: string): boolean {
  if (!existsSync(dir)) return false;
  return readdirSync(dir, { withFileTypes: true }).some((entry) => entry.isDirectory() && !entry.name.startsWith("."));
}

interface RobotContainersParts {
  readonly driver: Driver;
  readonly images: ContainerdImages;
  readonly cache: ImageCache;
}

class RobotContainers implements AgentContainers {
  readonly driver: Driver;
  readonly #images: ContainerdImages;
  readonly #options: AgentContainersOptions;
  readonly #pulls: PullQueue;
  readonly #cache: ImageCache;

  constructor({ driver, images, cache }: RobotContainersParts, options: AgentContainersOptions) {
    this.driver = driver;
    this.#images = images;
    this.#cache = cache;
    this.#options = options;
    this.#pulls = new PullQueue({ clock: options.clock, timeoutMs: options.policy.pullTimeoutMs });
  }

  async find(name: string): Promise<ContainerImage | undefined> {
    await this.#cache.given(name);
    return await this.#images.find(name);
  }

  async collect(wanted: ReadonlySet<string>): Promise<readonly string[]> {
    const inUse = new Set(wanted);
    for (const { state, spec } of this.driver.list()) {
      if (state.kind !== "exited" && spec.isolation?.image !== undefined) inUse.add(spec.isolation.image);
    }
    return await this.#cache.collect(inUse);
  }

  async image(name: string, signal: AbortSignal): Promise<ContainerImage> {
    const found = await this.find(name);
    if (found !== undefined) return found;
    if (!this.#options.policy.pull) {
      throw new RobotsError("ImageNotFound", `image ${name} not found on the robot, whose policy forbids pulling it`);
    }
    return await this.#pulls.run(name, signal, (limited) => this.#pull(name, limited));
  }

  async #pull(name: string, signal: AbortSignal): Promise<ContainerImage> {
    const before = await this.find(name);
    if (before !== undefined) return before;
    const temporary = join(this.#options.dir, "pulls");
    await mkdir(temporary, { recursive: true });
    const { credentialsFile } = this.#options.policy;
    const credentials = credentialsFile === undefined ? undefined : await readDockerCredentials(credentialsFile);
    const layout = await pullImage(name, {
      ...{ temporary, fetch: globalThis.fetch, signal },
      ...(credentials !== undefined && { credentials }),
    });
    try {
      const image = await this.#images.add(name, layout);
      await this.#cache.pulled(
        name,
        layout.manifest.layers.reduce((sum, layer) => sum + layer.size, 0),
      );
      return image;
    } finally {
      await layout.close();
    }
  }
}
