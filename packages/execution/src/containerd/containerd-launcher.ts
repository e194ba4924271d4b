import { existsSync, readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { constants } from "node:os";
import { dirname, join } from "node:path";
import { writeFileAtomic } from "../files/atomic-file.ts";
import { wasOomKilled } from "../cgroup/cgroup.ts";
import { listHierarchies, removeEmptyParent } from "../cgroup/cgroup-hierarchies.ts";
import type { CgroupHierarchy } from "../cgroup/cgroup-hierarchies.ts";
import type { Deadlines } from "../program/deadlines.ts";
import type { FifoPool } from "../io/fifo-pool.ts";
import { describeError } from "../files/file-error.ts";
import type { TerminalSize } from "../driver.ts";
import type { BindMount } from "../isolation.ts";
import { neverRanMessage, StartFailure } from "../process/launcher.ts";
import type { Termination, Identity, LaunchedProgram, Launcher, LaunchRequest, PreparedProgram } from "../process/launcher.ts";
import { elapsedMs, isAlive, readBootId, readStat } from "../process/proc.ts";
import { containerLimits } from "../program/limits-record.ts";
import { programFolder } from "../program/program-folder.ts";
import type { ProgramFolder } from "../program/program-folder.ts";
import { killTree, listTree, signalProcess, signalTree } from "../process/process-tree.ts";
import type { ProcessTree } from "../process/process-tree.ts";
import { readErrorTail, createLogs } from "../program/program-files.ts";
import { exitFileText, parseExitFile } from "../shim/shim.ts";
import { defaultAction } from "../process/signal-disposition.ts";
import { createStatsSampler } from "../cgroup/stats-sampler.ts";
import { ignoreNotFound, isUnreachable } from "./containerd-api.ts";
import type { ContainerdApi } from "./containerd-api.ts";
import { findContainerImage } from "./containerd-images.ts";
import { cgroupParent, planContainer } from "./container-plan.ts";
import type { ImageRoot, Mount } from "./container-plan.ts";
import { execInContainer, processFile } from "./container-exec.ts";
import { retryWhileUnreachable } from "./retry.ts";
import { parseStartError } from "./start-error.ts";
import { openTaskStreams, terminalFlushed } from "./task-output.ts";

/** What {@link createContainerdLauncher} needs. */
export interface ContainerdLauncherOptions {
  readonly api: ContainerdApi;
  readonly snapshotter: string;
  /** Pool of FIFOs on the file system of the programs' folders. */
  readonly fifos: FifoPool;
  readonly random: () => number;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** Mounted into every program, in addition to its spec's binds. */
  readonly binds: readonly BindMount[];
}

const runtime = "io.containerd.runc.v2";
const specType = "types.containerd.io/opencontainers/runtime-spec/1/Spec";

/** Labels of a container: its program id and its driver's folder. */
const programLabel = "keelson.dev/program";
const folderLabel = "keelson.dev/folder";

/** Task states of containerd's API: created but not started, and stopped. */
const taskStates = { created: 1, stopped: 3 } as const;

const unknownTask = "containerd no longer knows the program";

const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message.replace(/^\[\w+\] /, "") : describeError(error);

/** Attempts to clean up while containerd is unreachable: about 20 s. */
const maxCleanupAttempts = 11;

/** Whether a process is still the OCI runtime's init and not yet the program. */
function isRuntimeInit(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/comm`, "latin1").startsWith("runc:[");
  } catch {
    return false;
  }
}

/**
 * Launches programs as containers. Container, snapshot, task and cgroup of a program are named by its tag, so a supervisor that knows
 * only the tag can find and remove all of them. containerd's shim writes the logs and keeps the exit code until the task is deleted; the
 * code is copied to the program's exit file before that.
 */
export function createContainerdLauncher({ api, snapshotter, binds, fifos, random, now }: ContainerdLauncherOptions): Launcher {
  const bootId = readBootId();
  const { tasks, containers, snapshots, namespace } = api;
  const hierarchies: readonly CgroupHierarchy[] = listHierarchies(cgroupParent(namespace));

  /** The hierarchies in which the runtime created the program's cgroup. */
  const hierarchiesOf = ({ tag }: ProgramFolder): readonly CgroupHierarchy[] =>
    hierarchies.filter(({ parent }) => existsSync(join(parent, tag, "cgroup.procs")));

  const treeOf = (folder: ProgramFolder): ProcessTree => {
    const own = hierarchiesOf(folder);
    return { tag: folder.tag, hierarchies: own, isGrouped: own.length > 0 };
  };

  async function rootOf({ spec, folder }: LaunchRequest): Promise<ImageRoot | undefined> {
    const name = spec.isolation?.image;
    if (name === undefined) return undefined;
    const image = await findContainerImage(api, name);
    if (image === undefined) {
      throw new StartFailure(`could not start the program: image ${name} not found on this machine`, 126);
    }
    // Until the container refers to the snapshot, only this label keeps it from containerd's garbage collection.
    const labels = { "containerd.io/gc.root": new Date(now()).toISOString() };
    const { mounts } = await snapshots.prepare({ snapshotter, key: folder.tag, parent: image.chainId, labels });
    return { image, mounts: mounts.map(({ type, source, options }): Mount => ({ type, source, options })) };
  }

  /** Removes container, task and snapshot of a program; missing ones are ignored. */
  async function erase(folder: ProgramFolder): Promise<void> {
    await ignoreNotFound(tasks.delete({ containerId: folder.tag }));
    await ignoreNotFound(containers.delete({ id: folder.tag }));
    await ignoreNotFound(snapshots.remove({ snapshotter, key: folder.tag }));
  }

  async function prepare(request: LaunchRequest): Promise<PreparedProgram> {
    const { spec, folder } = request;
    createLogs(folder);
    try {
      const imageRoot = await rootOf(request);
      const plan = await planContainer(request, { namespace, binds, ...(imageRoot !== undefined && { imageRoot }) });
      await writeFile(processFile(folder), JSON.stringify(plan.spec.process), { mode: 0o600 });
      await containers.create({
        container: {
          id: folder.tag,
          labels: { [programLabel]: folder.id, [folderLabel]: dirname(folder.path) },
          runtime: { name: runtime },
          spec: { typeUrl: specType, value: Buffer.from(JSON.stringify(plan.spec)) },
          ...(imageRoot !== undefined && { image: imageRoot.image.name, snapshotter, snapshotKey: folder.tag }),
        },
      });
      const { pid } = await tasks.create({
        containerId: folder.tag,
        rootfs: plan.rootfs.map(({ type, source, options }) => ({ type, source, options: [...options] })),
        ...(await openTaskStreams(request, fifos)),
      });
      const startTime = readStat(pid)?.startTime ?? 0;
      return {
        identity: { pid, startTime, bootId },
        async release() {
          try {
            if (spec.terminal !== undefined) await resize(folder, spec.terminal);
            await tasks.start({ containerId: folder.tag });
          } catch (error) {
            await erase(folder);
            throw failure(error);
          }
          return launched(request, { pid, startTime }, unknownTask);
        },
        abandon: () => sweep(folder, request.deadlines),
      };
    } catch (error) {
      await sweep(folder, request.deadlines).catch(() => {});
      throw failure(error);
    }
  }

  function failure(error: unknown): StartFailure {
    if (error instanceof StartFailure) return error;
    const problem = parseStartError(messageOf(error));
    return new StartFailure(`could not start the program: ${problem?.message ?? messageOf(error)}`, problem?.exitCode ?? 126);
  }

  /** Waits for a task to exit, across restarts of containerd. Undefined if the task no longer exists. */
  async function waitForEnd(folder: ProgramFolder, deadlines: Deadlines, signal: AbortSignal): Promise<number | undefined> {
    const containerId = folder.tag;
    const read = async (): Promise<number | undefined> => {
      try {
        return (await tasks.wait({ containerId }, { signal })).exitStatus;
      } catch (error) {
        if (isUnreachable(error)) throw error;
        // A shim that has exited cannot be waited for, but containerd knows its last status.
        const process = (await ignoreNotFound(tasks.get({ containerId }, { signal })))?.process;
        if (process === undefined || process.status === taskStates.stopped) return process?.exitStatus;
        throw error;
      }
    };
    return retryWhileUnreachable(read, deadlines, signal);
  }

  function readExitCode(folder: ProgramFolder): { readonly exitCode: number; readonly oomKilled: boolean } | undefined {
    try {
      const { exitCode, oomKilled } = parseExitFile(readFileSync(folder.exit, "latin1"));
      return exitCode === undefined ? undefined : { exitCode, oomKilled };
    } catch {
      return undefined;
    }
  }

  function launched(
    request: LaunchRequest,
    { pid, startTime }: { readonly pid: number; readonly startTime: number },
    lostMessage: string,
  ): LaunchedProgram {
    const { folder, spec, deadlines } = request;
    const stopping = new AbortController();
    const sample = createStatsSampler(startTime);
    /** A signal that the kernel does not deliver to process 1 of a namespace, for which we sent SIGKILL instead. */
    let substituted: number | undefined;

    /** Cleans up after a terminated program; failures do not keep its exit status from being reported. */
    async function attempt(call: () => Promise<unknown>): Promise<void> {
      await retryWhileUnreachable(call, deadlines, stopping.signal, maxCleanupAttempts).catch(() => {});
    }

    async function end(): Promise<Termination> {
      let known = readExitCode(folder);
      if (known === undefined) {
        let exitStatus: number | undefined;
        try {
          exitStatus = await waitForEnd(folder, deadlines, stopping.signal);
        } catch (error) {
          // Detached: the next supervisor reads the exit status.
          if (stopping.signal.aborted) return new Promise(() => {});
          return { kind: "lost", message: `could not determine the exit status: ${messageOf(error)}` };
        }
        if (exitStatus === undefined) return { kind: "lost", message: lostMessage };
        const exitCode = substituted !== undefined && exitStatus === 137 ? 128 + substituted : exitStatus;
        known = { exitCode, oomKilled: exitStatus === 137 && wasOomKilled(hierarchiesOf(folder), folder.tag) };
        // If this fails (a full disk), the code is lost only if this supervisor dies before it reports it.
        await writeFileAtomic(folder.exit, exitFileText(known), { durable: true }).catch(() => {});
      }
      // When this returns, the shim has written all output.
      await attempt(() => ignoreNotFound(tasks.delete({ containerId: folder.tag })));
      if (spec.terminal !== undefined) await terminalFlushed(folder);
      const problem = known.exitCode === 1 || known.exitCode === 255 ? parseStartError(readErrorTail(folder, spec)) : undefined;
      if (problem === undefined) return { kind: "exited", ...known };
      const message = `could not execute the program: ${problem.message}`;
      return { kind: "start-failed", exitCode: problem.exitCode, message };
    }

    return {
      pid,
      limits: containerLimits(spec.limits),
      ended: end(),
      elapsedMs: () => elapsedMs(startTime),
      async signal(signal) {
        // Right after the start the process is the runtime's init, which would swallow the signal.
        for (let pauseMs = 1; isRuntimeInit(pid) && isAlive(pid, startTime); pauseMs *= 2) {
          await new Promise<void>((resolve) => void deadlines.after(pauseMs, resolve));
        }
        const isDropped = defaultAction(pid, signal) === "end";
        await signalTree(treeOf(folder), signal);
        if (!isDropped) return;
        substituted = constants.signals[signal];
        signalProcess({ pid, startTime }, "SIGKILL");
      },
      kill: () => killTree(treeOf(folder), deadlines),
      stats: async () => sample(await listTree(treeOf(folder))),
      resize: (size) => resize(folder, size),
      // The shim holds an end of the input open.
      endInput: () => attempt(() => ignoreNotFound(tasks.closeIO({ containerId: folder.tag, stdin: true }))),
      exec: (exec) => execInContainer({ api, fifos, random, containerId: folder.tag, folder, exec }),
      cleanUp: () => attempt(() => erase(folder)),
      detach: () => stopping.abort(),
    };
  }

  /** Sets the terminal's size; fails silently if the program has exited. */
  async function resize({ tag }: ProgramFolder, { columns, rows }: TerminalSize): Promise<void> {
    await tasks.resizePty({ containerId: tag, width: columns, height: rows }).catch(() => {});
  }

  async function sweep(folder: ProgramFolder, deadlines: Deadlines): Promise<void> {
    const isThere = await ignoreNotFound(tasks.get({ containerId: folder.tag }));
    if (isThere !== undefined) {
      // Fails if the task has exited.
      await tasks.kill({ containerId: folder.tag, signal: constants.signals.SIGKILL, all: true }).catch(() => {});
      await ignoreNotFound(tasks.wait({ containerId: folder.tag }));
    }
    await killTree(treeOf(folder), deadlines);
    await erase(folder);
  }

  return {
    prepare,
    async adopt(request, identity: Identity) {
      const found = await ignoreNotFound(tasks.get({ containerId: request.folder.tag }));
      const isNew = found?.process?.status === taskStates.created;
      if (isNew) await sweep(request.folder, request.deadlines);
      const lost = isNew
        ? neverRanMessage
        : identity.bootId === bootId
          ? unknownTask
          : "the machine restarted while the program ran";
      return launched(request, { pid: Number(identity.pid), startTime: Number(identity.startTime) }, lost);
    },
    sweep,
    async sweepOrphans(dir, deadlines) {
      const { containers: all } = await containers.list({});
      for (const { id, labels } of all) {
        if (labels[folderLabel] !== dir) continue;
        const folder = programFolder(dir, labels[programLabel] ?? "");
        // The tag confirms that the container is ours.
        if (folder.tag === id && !existsSync(folder.path)) await sweep(folder, deadlines);
      }
    },
    close: () => removeEmptyParent(cgroupParent(namespace)),
  };
}
