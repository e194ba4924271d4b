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
import { neverRan, StartFailure } from "../process/launcher.ts";
import type { Ending, Identity, LaunchedProgram, Launcher, LaunchRequest, PreparedProgram } from "../process/launcher.ts";
import { elapsedMs, isAlive, readBootId, readStat } from "../process/proc.ts";
import { programFolder } from "../program/program-folder.ts";
import type { ProgramFolder } from "../program/program-folder.ts";
import { killTree, listTree, signalProcess, signalTree } from "../process/process-tree.ts";
import type { ProcessTree } from "../process/process-tree.ts";
import { lastWords, makeLogs } from "../program/program-place.ts";
import { exitFileText, parseExitFile } from "../shim/shim.ts";
import { defaultAction } from "../process/signal-disposition.ts";
import { createStatsSampler } from "../cgroup/stats-sampler.ts";
import { ifThere, isUnreachable } from "./containerd-api.ts";
import type { ContainerdApi } from "./containerd-api.ts";
import { findContainerImage } from "./containerd-images.ts";
import { cgroupParent, planContainer } from "./container-plan.ts";
import type { ImageRoot, Mount } from "./container-plan.ts";
import { execInContainer, processFile } from "./container-exec.ts";
import { persist } from "./retry.ts";
import { startProblem } from "./start-error.ts";
import { taskOutput, terminalCopied } from "./task-output.ts";

/** What {@link createContainerdLauncher} needs. */
export interface ContainerdLauncherOptions {
  readonly api: ContainerdApi;
  readonly snapshotter: string;
  /** Stock of FIFOs, on the file system of the programs' folders. */
  readonly fifos: FifoPool;
  readonly random: () => number;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** What every program sees besides what its spec says. */
  readonly binds: readonly BindMount[];
}

const runtime = "io.containerd.runc.v2";
const specType = "types.containerd.io/opencontainers/runtime-spec/1/Spec";

/** Labels of a container: which program it is, and of the driver on which folder. */
const programLabel = "keelson.dev/program";
const folderLabel = "keelson.dev/folder";

/** States of a task: made and not started, and ended. */
const taskStates = { created: 1, stopped: 3 } as const;

const unknownTask = "containerd does not know the program any more";

const wordsOf = (error: unknown): string =>
  error instanceof Error ? error.message.replace(/^\[\w+\] /, "") : describeError(error);

/** How often cleaning up is tried while containerd is away: for about 20 s. */
const cleaningTries = 11;

/** Whether a process is still what the OCI runtime started, and not yet the program. */
function isRuntimeInit(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/comm`, "latin1").startsWith("runc:[");
  } catch {
    return false;
  }
}

/**
 * Launches programs as containers. Everything of a program is named by its tag: container, snapshot, task and cgroup; so a
 * supervisor that knows nothing but the tag finds and removes all of it. containerd's shim writes the logs, and keeps the exit
 * code until the task is deleted; before that the code is in the program's exit file.
 */
export function createContainerdLauncher({ api, snapshotter, binds, fifos, random, now }: ContainerdLauncherOptions): Launcher {
  const bootId = readBootId();
  const { tasks, containers, snapshots, namespace } = api;
  const hierarchies: readonly CgroupHierarchy[] = listHierarchies(cgroupParent(namespace));

  /** The hierarchies in which the runtime made the program's group. */
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
      throw new StartFailure(`The program could not be started: there is no image ${name} on this machine`, 126);
    }
    // Until the container names it nothing else keeps it from containerd's collection of garbage.
    const labels = { "containerd.io/gc.root": new Date(now()).toISOString() };
    const { mounts } = await snapshots.prepare({ snapshotter, key: folder.tag, parent: image.chainId, labels });
    return { image, mounts: mounts.map(({ type, source, options }): Mount => ({ type, source, options })) };
  }

  /** Removes all that containerd has of a program. What is not there is no error. */
  async function erase(folder: ProgramFolder): Promise<void> {
    await ifThere(tasks.delete({ containerId: folder.tag }));
    await ifThere(containers.delete({ id: folder.tag }));
    await ifThere(snapshots.remove({ snapshotter, key: folder.tag }));
  }

  async function prepare(request: LaunchRequest): Promise<PreparedProgram> {
    const { spec, folder } = request;
    makeLogs(folder);
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
        ...(await taskOutput(request, fifos)),
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
    const problem = startProblem(wordsOf(error));
    return new StartFailure(
      `The program could not be started: ${problem?.message ?? wordsOf(error)}`,
      problem?.exitCode ?? 126,
    );
  }

  /** Waits for the end of a task, over restarts of containerd. Undefined: there is no such task any more. */
  async function waitForEnd(folder: ProgramFolder, deadlines: Deadlines, signal: AbortSignal): Promise<number | undefined> {
    const containerId = folder.tag;
    const look = async (): Promise<number | undefined> => {
      try {
        return (await tasks.wait({ containerId }, { signal })).exitStatus;
      } catch (error) {
        if (isUnreachable(error)) throw error;
        // A shim that ended meanwhile cannot be waited for; what it told before is known.
        const process = (await ifThere(tasks.get({ containerId }, { signal })))?.process;
        if (process === undefined || process.status === taskStates.stopped) return process?.exitStatus;
        throw error;
      }
    };
    return persist(look, deadlines, signal);
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
    /** A signal that the kernel keeps from process 1 of a namespace and that we carried out in its place. */
    let carriedOut: number | undefined;

    /** What is done to a program that has ended; that it ended is told in any case. */
    async function attempt(call: () => Promise<unknown>): Promise<void> {
      await persist(call, deadlines, stopping.signal, cleaningTries).catch(() => {});
    }

    async function end(): Promise<Ending> {
      let known = readExitCode(folder);
      if (known === undefined) {
        let exitStatus: number | undefined;
        try {
          exitStatus = await waitForEnd(folder, deadlines, stopping.signal);
        } catch (error) {
          // Nobody listens any more: the next supervisor will learn it.
          if (stopping.signal.aborted) return new Promise(() => {});
          return { kind: "lost", message: `containerd does not tell how the program ended: ${wordsOf(error)}` };
        }
        if (exitStatus === undefined) return { kind: "lost", message: lostMessage };
        const exitCode = carriedOut !== undefined && exitStatus === 137 ? 128 + carriedOut : exitStatus;
        known = { exitCode, oomKilled: exitStatus === 137 && wasOomKilled(hierarchiesOf(folder), folder.tag) };
        // Where that fails (a full disk) the code is lost only if this supervisor dies before it has told.
        await writeFileAtomic(folder.exit, exitFileText(known), { durable: true }).catch(() => {});
      }
      // With this the shim has written all of the output.
      await attempt(() => ifThere(tasks.delete({ containerId: folder.tag })));
      if (spec.terminal !== undefined) await terminalCopied(folder);
      const problem = known.exitCode === 1 || known.exitCode === 255 ? startProblem(lastWords(folder, spec)) : undefined;
      if (problem === undefined) return { kind: "exited", ...known };
      const message = `The program could not be executed: ${problem.message}`;
      return { kind: "start-failed", exitCode: problem.exitCode, message };
    }

    return {
      pid,
      limits: { applied: spec.limits ?? {} },
      ended: end(),
      elapsedMs: () => elapsedMs(startTime),
      async signal(signal) {
        // What runs right after the start is the runtime's: it would swallow the signal.
        for (let pauseMs = 1; isRuntimeInit(pid) && isAlive(pid, startTime); pauseMs *= 2) {
          await new Promise<void>((resolve) => void deadlines.after(pauseMs, resolve));
        }
        const isDropped = defaultAction(pid, signal) === "end";
        await signalTree(treeOf(folder), signal);
        if (!isDropped) return;
        carriedOut = constants.signals[signal];
        signalProcess({ pid, startTime }, "SIGKILL");
      },
      kill: () => killTree(treeOf(folder), deadlines),
      stats: async () => sample(await listTree(treeOf(folder))),
      resize: (size) => resize(folder, size),
      // The shim holds an end of the input open itself.
      endInput: () => attempt(() => ifThere(tasks.closeIO({ containerId: folder.tag, stdin: true }))),
      exec: (exec) => execInContainer({ api, fifos, random, containerId: folder.tag, folder, exec }),
      cleanUp: () => attempt(() => erase(folder)),
      detach: () => stopping.abort(),
    };
  }

  /** Of a program that has ended there is nothing to resize. */
  async function resize({ tag }: ProgramFolder, { columns, rows }: TerminalSize): Promise<void> {
    await tasks.resizePty({ containerId: tag, width: columns, height: rows }).catch(() => {});
  }

  async function sweep(folder: ProgramFolder, deadlines: Deadlines): Promise<void> {
    const isThere = await ifThere(tasks.get({ containerId: folder.tag }));
    if (isThere !== undefined) {
      // One that has ended meanwhile cannot be killed.
      await tasks.kill({ containerId: folder.tag, signal: constants.signals.SIGKILL, all: true }).catch(() => {});
      await ifThere(tasks.wait({ containerId: folder.tag }));
    }
    await killTree(treeOf(folder), deadlines);
    await erase(folder);
  }

  return {
    prepare,
    async adopt(request, identity: Identity) {
      const found = await ifThere(tasks.get({ containerId: request.folder.tag }));
      const isNew = found?.process?.status === taskStates.created;
      if (isNew) await sweep(request.folder, request.deadlines);
      const lost = isNew ? neverRan : identity.bootId === bootId ? unknownTask : "The machine restarted while the program ran";
      return launched(request, { pid: Number(identity.pid), startTime: Number(identity.startTime) }, lost);
    },
    sweep,
    async sweepOrphans(dir, deadlines) {
      const { containers: all } = await containers.list({});
      for (const { id, labels } of all) {
        if (labels[folderLabel] !== dir) continue;
        const folder = programFolder(dir, labels[programLabel] ?? "");
        // The tag says once more that it is one of ours.
        if (folder.tag === id && !existsSync(folder.path)) await sweep(folder, deadlines);
      }
    },
    close: () => removeEmptyParent(cgroupParent(namespace)),
  };
}
