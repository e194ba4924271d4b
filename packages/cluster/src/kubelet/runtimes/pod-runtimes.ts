import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join, resolve } from "node:path";
import { type Clock, sleep } from "@keelson/api-machinery/time";
import {
  createBubblewrapDriver,
  createContainerdDriver,
  createProcessDriver,
  type Driver,
  findBubblewrap,
  openContainerdImages,
  type Program,
  type ProgramGroup,
  type UnpackedImages,
} from "@keelson/execution";
import { type Logger, silentLogger } from "@keelson/controller";
import { cpuShares } from "../container/container-limits.ts";
import { type FileWatch, watchFile } from "./file-watch.ts";
import { createContainerdPodImages, type PodImages } from "./pod-images.ts";

/** A way to run the programs of Pods, selected by a RuntimeClass's `handler`. */
export interface PodRuntime {
  readonly driver: Driver;
  /** The image store. Absent if the runtime has none: then `unpacked` is used. */
  readonly images?: PodImages;
  /** Imported images. If an image is not among them, the command is a program of this machine. */
  readonly unpacked?: Pick<UnpackedImages, "find">;
}

/** Options of {@link openPodRuntimes}. */
export interface PodRuntimesOptions {
  /** Directory for programs, one subdirectory per runtime. */
  readonly dataDir: string;
  readonly clock: Clock;
  /** 0 (inclusive) to 1 (exclusive). */
  readonly random: () => number;
  /** Whether Pods may run as bare processes, with the permissions of this process. Default true. */
  readonly allowsProcess?: boolean;
  /** Imported images for `bubblewrap`. Default: none. */
  readonly unpacked?: Pick<UnpackedImages, "find">;
  /** Socket of a containerd that must be available. Default: {@link awaitedContainerd}. */
  readonly containerd?: string | undefined;
  /** Socket of a containerd that is used as soon as it is available. Default: none. */
  readonly awaitedContainerd?: string | undefined;
  /** Default: no logging. */
  readonly log?: Logger;
}

/** A runtime of a node became available or unavailable. */
export interface RuntimeChange {
  readonly handler: string;
  /** Whether it can start programs. Running programs continue either way. */
  readonly isAvailable: boolean;
  /** For events. */
  readonly message: string;
}

/** Delays, doubled each time, before a new socket is tried again: about 25 s in total. */
const firstDelayMs = 50;
const maxDelayMs = 12_800;

/** The runtimes of a node: `process` unless it is not allowed, `bubblewrap` and `containerd` if the machine has them. */
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

  /** Finds a program in any runtime. Ids derive from Pod uids, so they are unique across runtimes. */
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

  /** Calls `listener` when a runtime becomes available or unavailable, after earlier listeners have finished. */
  onChange(listener: (change: RuntimeChange) => void | Promise<void>): void {
    this.#listeners.push(listener);
  }

  /** Opens a runtime whenever its socket appears, unless it is open, and notifies listeners. */
  follow(
    handler: string,
    socket: string,
    open: () => Promise<PodRuntime>,
    { clock, log }: { readonly clock: Clock; readonly log: Logger },
  ): void {
    let last: Promise<void> = Promise.resolve();
    // The socket exists a moment before its server accepts connections.
    const retry = async (call: () => Promise<PodRuntime>): Promise<PodRuntime> => {
      for (let delayMs = firstDelayMs; ; delayMs *= 2) {
        try {
          return await call();
        } catch (error) {
          if (delayMs > maxDelayMs || this.#isClosed || !existsSync(socket)) throw error;
          await sleep(clock, delayMs);
        }
      }
    };
    const changed = async (isAvailable: boolean): Promise<void> => {
      if (!isAvailable) {
        if (this.#runtimes.has(handler)) await this.#notify({ handler, isAvailable, message: `${socket} no longer exists` });
        return;
      }
      try {
        if (!this.#runtimes.has(handler)) this.#runtimes.set(handler, await retry(open));
        await this.#notify({ handler, isAvailable, message: `${handler} answers on ${socket}` });
      } catch (error) {
        log.warn({ err: error, handler }, "could not open a new container runtime");
      }
    };
    this.#watch = watchFile(socket, (exists) => {
      last = last.then(() => changed(exists));
    });
  }

  async #notify(change: RuntimeChange): Promise<void> {
    for (const listener of this.#listeners) await listener(change);
  }

  /** Stops supervising; programs keep running. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#watch?.close();
    for (const { driver } of this.#runtimes.values()) await driver.close();
  }
}

/**
 * The cgroup of the Pods of a data directory. It has the share of all CPUs alongside the rest of the machine, as the kubelet's, so that
 * requests weigh Pods against one another only.
 */
function podGroup(dataDir: string): ProgramGroup {
  const id = createHash("sha256").update(resolve(dataDir)).digest("hex").slice(0, 16);
  return { name: `keelson-pods-${id}`, cpuShares: cpuShares(availableParallelism() * 1000) };
}

/** Opens the runtimes of this machine. Rejects if a required containerd does not respond. */
export async function openPodRuntimes(options: PodRuntimesOptions): Promise<PodRuntimes> {
  const { dataDir, clock, random, allowsProcess = true, containerd, awaitedContainerd, unpacked, log = silentLogger } = options;
  const common = { clock, random };
  const group = podGroup(dataDir);
  const runtimes = new Map<string, PodRuntime>();
  const openContainerd = async (socket: string): Promise<PodRuntime> => {
    const images = await openContainerdImages({ socket, random, now: () => clock.now() });
    const driver = await createContainerdDriver({ ...common, group, dir: join(dataDir, "programs-containerd"), socket });
    return { driver, images: createContainerdPodImages(images, { temporary: dataDir, socket, fetch: globalThis.fetch }) };
  };
  try {
    if (allowsProcess)
      runtimes.set("process", { driver: await createProcessDriver({ ...common, group, dir: join(dataDir, "programs") }) });
    if (findBubblewrap() !== undefined) {
      const dir = join(dataDir, "programs-bubblewrap");
      const driver = await createBubblewrapDriver({ ...common, group, dir });
      runtimes.set("bubblewrap", { driver, ...(unpacked !== undefined && { unpacked }) });
    }
    if (containerd !== undefined) runtimes.set("containerd", await openContainerd(containerd));
    else if (awaitedContainerd !== undefined && existsSync(awaitedContainerd)) {
      const opened = await openContainerd(awaitedContainerd).catch((error: unknown) => {
        log.warn({ err: error }, "could not open containerd; retrying when it restarts");
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
