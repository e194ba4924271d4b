import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { constants } from "node:os";
import { dirname } from "node:path";
import { removeEmptyParent } from "../cgroup/cgroup-hierarchies.ts";
import type { ProgramGroup } from "../cgroup/program-group.ts";
import type { FifoPool } from "../io/fifo-pool.ts";
import type { CallProfile } from "../bubblewrap/seccomp-filter.ts";
import type { BindMount } from "../isolation.ts";
import {
  type Identity,
  type LaunchedProgram,
  type Launcher,
  type LaunchRequest,
  neverRanMessage,
  type PreparedProgram,
  StartFailure,
} from "../process/launcher.ts";
import { readBootId, readStat } from "../process/proc.ts";
import { killTree } from "../process/process-tree.ts";
import type { Deadlines } from "../program/deadlines.ts";
import { createLogs } from "../program/files/program-files.ts";
import { programFolder, type ProgramFolder } from "../program/files/program-folder.ts";
import { hasPrivateUser } from "../program/users/program-user.ts";
import { ContainerContext, messageOf, taskStates } from "./container-context.ts";
import { processFile } from "./container-exec.ts";
import { cgroupParent, type ImageRoot, type Mount, planContainer } from "./container-plan.ts";
import { containerRuntime, enableLoopback } from "./container-runtime.ts";
import { type ContainerdApi, ignoreNotFound } from "./containerd-api.ts";
import { findContainerImage } from "./containerd-images.ts";
import { freeRange, idRangeLabel, usedRanges } from "./id-range.ts";
import { LaunchedContainer } from "./launched-container.ts";
import { parseStartError } from "./start-error.ts";
import { openTaskStreams } from "./task-output.ts";

/** What {@link createContainerdLauncher} needs. */
export interface ContainerdLauncherOptions {
  readonly api: ContainerdApi;
  readonly snapshotter: string;
  /** Pool of FIFOs on the file system of the programs' directories. */
  readonly fifos: FifoPool;
  readonly random: () => number;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** Mounted into every program, in addition to its spec's binds. */
  readonly binds: readonly BindMount[];
  /** See `ContainerdDriverOptions.group`. */
  readonly group?: ProgramGroup;
  /** See `ContainerdDriverOptions.calls`. */
  readonly calls?: CallProfile;
  /** See `ContainerdDriverOptions.onCreated`. */
  readonly onCreated?: (id: string, pid: number) => Promise<void>;
}

const specType = "types.containerd.io/opencontainers/runtime-spec/1/Spec";

/** Labels of a container: its program id and its driver's directory. */
const programLabel = "keelson.dev/program";
const folderLabel = "keelson.dev/folder";

const unknownTask = "containerd no longer knows the program";

/**
 * Launches programs as containers. Container, snapshot, task and cgroup of a program are named by its tag, so a supervisor that knows
 * only the tag can find and remove all of them. containerd's shim writes the logs and keeps the exit code until the task is deleted; the
 * code is copied to the program's exit file before that.
 */
export function createContainerdLauncher(options: ContainerdLauncherOptions): Launcher {
  return new ContainerdLauncher(options);
}

class ContainerdLauncher implements Launcher {
  readonly #api: ContainerdApi;
  readonly #context: ContainerContext;
  readonly #binds: readonly BindMount[];
  readonly #calls: CallProfile | undefined;
  readonly #now: () => number;
  readonly #onCreated: ContainerdLauncherOptions["onCreated"];
  readonly #bootId = readBootId();

  constructor(options: ContainerdLauncherOptions) {
    this.#api = options.api;
    this.#context = new ContainerContext(options);
    this.#binds = options.binds;
    this.#calls = options.calls;
    this.#now = options.now;
    this.#onCreated = options.onCreated;
  }

  async prepare(request: LaunchRequest): Promise<PreparedProgram> {
    const { spec, folder } = request;
    createLogs(folder);
    try {
      const task = await this.#createTask(request);
      return {
        identity: { ...task, bootId: this.#bootId },
        release: async () => {
          try {
            const { runtime, network } = spec.isolation ?? {};
            if (runtime === "runsc" && network === "none") await enableLoopback(task.pid);
            this.#context.limitSockets(folder, spec.limits ?? {});
            if (spec.terminal !== undefined) await this.#context.resize(folder, spec.terminal);
            await this.#onCreated?.(folder.id, task.pid).catch(async (error: unknown) => {
              await this.sweep(folder, request.deadlines);
              throw error;
            });
            await this.#api.tasks.start({ containerId: folder.tag });
          } catch (error) {
            await this.#context.erase(folder);
            throw startFailure(error);
          }
          return new LaunchedContainer(this.#context, request, task, unknownTask);
        },
        abandon: () => this.sweep(folder, request.deadlines),
      };
    } catch (error) {
      await this.sweep(folder, request.deadlines).catch(() => {});
      throw startFailure(error);
    }
  }

  async adopt(request: LaunchRequest, identity: Identity): Promise<LaunchedProgram> {
    const found = await ignoreNotFound(this.#api.tasks.get({ containerId: request.folder.tag }));
    const isNew = found?.process?.status === taskStates.created;
    if (isNew) await this.sweep(request.folder, request.deadlines);
    const isSameBoot = identity.bootId === this.#bootId;
    const lost = isSameBoot ? unknownTask : "the machine restarted while the program ran";
    const task = { pid: Number(identity.pid), startTime: Number(identity.startTime) };
    return new LaunchedContainer(this.#context, request, task, isNew ? neverRanMessage : lost);
  }

  async sweep(folder: ProgramFolder, deadlines: Deadlines): Promise<void> {
    const { tasks } = this.#api;
    const found = await ignoreNotFound(tasks.get({ containerId: folder.tag }));
    if (found !== undefined) {
      if (found.process?.status === taskStates.paused) await tasks.resume({ containerId: folder.tag }).catch(() => {});
      // Fails if the task has exited.
      await tasks.kill({ containerId: folder.tag, signal: constants.signals.SIGKILL, all: true }).catch(() => {});
      await ignoreNotFound(tasks.wait({ containerId: folder.tag }));
    }
    await killTree(this.#context.treeOf(folder), deadlines);
    await this.#context.erase(folder);
  }

  async sweepOrphans(dir: string, deadlines: Deadlines): Promise<void> {
    const { containers: all } = await this.#api.containers.list({});
    for (const { id, labels } of all) {
      if (labels[folderLabel] !== dir) continue;
      const folder = programFolder(dir, labels[programLabel] ?? "");
      // The tag confirms that the container is ours.
      if (folder.tag === id && !existsSync(folder.path)) await this.sweep(folder, deadlines);
    }
  }

  close(): void {
    this.#context.close();
    removeEmptyParent(cgroupParent(this.#api.namespace));
  }

  /** Creates a program's container and its task, which does not run yet. */
  async #createTask(request: LaunchRequest): Promise<{ readonly pid: number; readonly startTime: number }> {
    const { folder } = request;
    const { containers, tasks, namespace } = this.#api;
    const { snapshotter, fifos } = this.#context;
    const imageRoot = await this.#rootOf(request);
    const firstId = hasPrivateUser(request.spec) ? freeRange(folder, await usedRanges(this.#api)) : undefined;
    const plan = await planContainer(request, {
      cgroupParent: cgroupParent(namespace, this.#context.group),
      binds: this.#binds,
      ...(this.#calls !== undefined && { calls: this.#calls }),
      ...(imageRoot !== undefined && { imageRoot }),
      ...(firstId !== undefined && { firstId }),
    });
    await writeFile(processFile(folder), JSON.stringify(plan.spec.process), { mode: 0o600 });
    await containers.create({
      container: {
        id: folder.tag,
        labels: {
          [programLabel]: folder.id,
          [folderLabel]: dirname(folder.path),
          ...(firstId !== undefined && { [idRangeLabel]: String(firstId) }),
        },
        runtime: containerRuntime(request.spec.isolation, dirname(folder.path)),
        spec: { typeUrl: specType, value: Buffer.from(JSON.stringify(plan.spec)) },
        ...(imageRoot !== undefined && { image: imageRoot.image.name, snapshotter, snapshotKey: folder.tag }),
      },
    });
    const { pid } = await tasks.create({
      containerId: folder.tag,
      rootfs: plan.rootfs.map(({ type, source, options }) => ({ type, source, options: [...options] })),
      ...(await openTaskStreams(request, fifos)),
    });
    return { pid, startTime: readStat(pid)?.startTime ?? 0 };
  }

  /** Prepares the snapshot of the program's image, if it names one. */
  async #rootOf({ spec, folder }: LaunchRequest): Promise<ImageRoot | undefined> {
    const name = spec.isolation?.image;
    if (name === undefined) return undefined;
    const image = await findContainerImage(this.#api, name);
    if (image === undefined) {
      throw new StartFailure(`could not start the program: image ${name} not found on this machine`, 126);
    }
    // Until the container refers to the snapshot, only this label keeps it from containerd's garbage collection.
    const labels = { "containerd.io/gc.root": new Date(this.#now()).toISOString() };
    const { snapshotter } = this.#context;
    const { mounts } = await this.#api.snapshots.prepare({ snapshotter, key: folder.tag, parent: image.chainId, labels });
    return { image, mounts: mounts.map(({ type, source, options }): Mount => ({ type, source, options })) };
  }
}

function startFailure(error: unknown): StartFailure {
  if (error instanceof StartFailure) return error;
  const problem = parseStartError(messageOf(error));
  return new StartFailure(`could not start the program: ${problem?.message ?? messageOf(error)}`, problem?.exitCode ?? 126);
}
