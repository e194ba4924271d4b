import { existsSync } from "node:fs";
import { join } from "node:path";
import { type Clock, sleep } from "@keelson/api-machinery/time";
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
import { type Logger, silentLogger } from "@keelson/controller";
import { type FileWatch, watchFile } from "./file-watch.ts";
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
  /** Socket of a containerd that has to be there. Default: {@link awaitedContainerd}. */
  readonly containerd?: string | undefined;
  /** Socket of a containerd that is used where, and as soon as, something is there. Default: none is used. */
  readonly awaitedContainerd?: string | undefined;
  /** Default: nothing is logged. */
  readonly log?: Logger;
}

/** What happened to a runtime of a node. */
export interface RuntimeChange {
  readonly handler: string;
  /** It can start programs now; else it cannot any more, and what runs goes on. */
  readonly isThere: boolean;
  /** For people. */
  readonly message: string;
}

/** Pauses, doubled each time, before a runtime whose socket has come is tried again: for about 25 s. */
const firstPauseMs = 50;
const longestPauseMs = 12_800;

/** The runtimes of a node: `process` always, `bubblewrap` and `containerd` where the machine has them. */
export class PodRuntimes {
  readonly #runtimes: Map<string, PodRuntime>;
  readonly #listeners: ((change: RuntimeChange) => void | Promise<void>)[] = [];
  #watch: FileWatch | undefined;
  #isClosed = false;

  constructor(runtimes: ReadonlyMap<string, PodRuntime>) {
    this.#runtimes = new Map(runtimes);
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

  /** Calls `listener` when a runtime comes or goes later, after those that asked before have returned. */
  onChange(listener: (change: RuntimeChange) => void | Promise<void>): void {
    this.#listeners.push(listener);
  }

  /** Opens a runtime each time that its socket comes, unless it is open; whoever listens is told. */
  follow(
    handler: string,
    socket: string,
    open: () => Promise<PodRuntime>,
    { clock, log }: { readonly clock: Clock; readonly log: Logger },
  ): void {
    let last: Promise<void> = Promise.resolve();
    // The socket is there a moment before anybody listens on it.
    const persist = async (call: () => Promise<PodRuntime>): Promise<PodRuntime> => {
      for (let pauseMs = firstPauseMs; ; pauseMs *= 2) {
        try {
          return await call();
        } catch (error) {
          if (pauseMs > longestPauseMs || this.#isClosed || !existsSync(socket)) throw error;
          await sleep(clock, pauseMs);
        }
      }
    };
    const changed = async (isThere: boolean): Promise<void> => {
      if (!isThere) {
        if (this.#runtimes.has(handler)) await this.#tell({ handler, isThere, message: `${socket} is gone` });
        return;
      }
      try {
        if (!this.#runtimes.has(handler)) this.#runtimes.set(handler, await persist(open));
        await this.#tell({ handler, isThere, message: `${handler} answers on ${socket}` });
      } catch (error) {
        log.warn({ err: error, handler }, "a runtime came and is not used");
      }
    };
    this.#watch = watchFile(socket, (isThere) => {
      last = last.then(() => changed(isThere));
    });
  }

  async #tell(change: RuntimeChange): Promise<void> {
    for (const listener of this.#listeners) await listener(change);
  }

  /** Stops supervising; programs go on. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#watch?.close();
    for (const { driver } of this.#runtimes.values()) await driver.close();
  }
}

/** Opens the runtimes that this machine has. Rejects where a containerd is asked for and does not answer. */
export async function openPodRuntimes(options: PodRuntimesOptions): Promise<PodRuntimes> {
  const { dataDir, clock, random, containerd, awaitedContainerd, unpacked, log = silentLogger } = options;
  const common = { clock, random };
  const runtimes = new Map<string, PodRuntime>();
  const openContainerd = async (socket: string): Promise<PodRuntime> => {
    const images = await openContainerdImages({ socket, random, now: () => clock.now() });
    const driver = await createContainerdDriver({ ...common, dir: join(dataDir, "programs-containerd"), socket });
    return { driver, images: createContainerdPodImages(images, dataDir, socket) };
  };
  try {
    runtimes.set("process", { driver: await createProcessDriver({ ...common, dir: join(dataDir, "programs") }) });
    if (findBubblewrap() !== undefined) {
      const dir = join(dataDir, "programs-bubblewrap");
      const driver = await createBubblewrapDriver({ ...common, dir });
      runtimes.set("bubblewrap", { driver, ...(unpacked !== undefined && { unpacked }) });
    }
    if (containerd !== undefined) runtimes.set("containerd", await openContainerd(containerd));
    else if (awaitedContainerd !== undefined && existsSync(awaitedContainerd)) {
      const opened = await openContainerd(awaitedContainerd).catch((error: unknown) => {
        log.warn({ err: error }, "containerd is not used until it is started again");
      });
      if (opened !== undefined) runtimes.set("containerd", opened);
    }
  } catch (error) {
    await new PodRuntimes(runtimes).close();
    throw error;
  }
  const opened = new PodRuntimes(runtimes);
  const socket = containerd ?? awaitedContainerd;
  if (socket !== undefined) opened.follow("containerd", socket, () => openContainerd(socket), { clock, log });
  return opened;
}
