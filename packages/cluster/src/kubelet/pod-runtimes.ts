import { join } from "node:path";
import type { Clock } from "@keelson/api-machinery";
import {
  createBubblewrapDriver,
  createContainerdDriver,
  createProcessDriver,
  type Driver,
  findBubblewrap,
  openContainerdImages,
  type Program,
  type UnpackedImages,
} from "@keelson/execution";
import { createContainerdPodImages, type PodImages } from "./pod-images.ts";

/** One way in which a node runs the programs of Pods: what a RuntimeClass's `handler` names. */
export interface PodRuntime {
  readonly driver: Driver;
  /** Where images come from. Absent: {@link unpacked}, or an image names nothing. */
  readonly images?: PodImages;
  /** Images that were imported; another name names nothing, and its program is one of this machine. */
  readonly unpacked?: Pick<UnpackedImages, "find">;
}

/** Options of {@link openPodRuntimes}. */
export interface PodRuntimesOptions {
  /** Programs are kept here, a folder a runtime. */
  readonly dataDir: string;
  readonly clock: Clock;
  /** 0 (inclusive) to 1 (exclusive). */
  readonly random: () => number;
  /** Images for `bubblewrap`. Default: none. */
  readonly unpacked?: Pick<UnpackedImages, "find">;
  /** Socket of a containerd. Default: none is used. */
  readonly containerd?: string | undefined;
}

/** The runtimes of a node: `process` always, `bubblewrap` and `containerd` where the machine has them. */
export class PodRuntimes {
  readonly #runtimes: ReadonlyMap<string, PodRuntime>;

  constructor(runtimes: ReadonlyMap<string, PodRuntime>) {
    this.#runtimes = runtimes;
  }

  /** The handlers of RuntimeClasses. */
  get names(): readonly string[] {
    return [...this.#runtimes.keys()];
  }

  get(handler: string): PodRuntime | undefined {
    return this.#runtimes.get(handler);
  }

  /** A program, whatever runs it: ids are those of Pods, so no two runtimes share one. */
  program(id: string): Program | undefined {
    for (const { driver } of this.#runtimes.values()) {
      const program = driver.get(id);
      if (program !== undefined) return program;
    }
    return undefined;
  }

  programs(): readonly Program[] {
    return [...this.#runtimes.values()].flatMap(({ driver }) => driver.list());
  }

  /** Stops supervising; programs go on. */
  async close(): Promise<void> {
    for (const { driver } of this.#runtimes.values()) await driver.close();
  }
}

/** Opens the runtimes that this machine has. Rejects where a containerd is asked for and does not answer. */
export async function openPodRuntimes(options: PodRuntimesOptions): Promise<PodRuntimes> {
  const { dataDir, clock, random, containerd, unpacked } = options;
  const common = { clock, random };
  const runtimes = new Map<string, PodRuntime>();
  const opened = new PodRuntimes(runtimes);
  try {
    runtimes.set("process", { driver: await createProcessDriver({ ...common, dir: join(dataDir, "programs") }) });
    if (findBubblewrap() !== undefined) {
      const dir = join(dataDir, "programs-bubblewrap");
      const driver = await createBubblewrapDriver({ ...common, dir });
      runtimes.set("bubblewrap", { driver, ...(unpacked !== undefined && { unpacked }) });
    }
    if (containerd !== undefined) {
      const dir = join(dataDir, "programs-containerd");
      const driver = await createContainerdDriver({ ...common, dir, socket: containerd });
      const images = await openContainerdImages({ socket: containerd, random, now: () => clock.now() });
      runtimes.set("containerd", { driver, images: createContainerdPodImages(images, dataDir) });
    }
  } catch (error) {
    await opened.close();
    throw error;
  }
  return opened;
}
