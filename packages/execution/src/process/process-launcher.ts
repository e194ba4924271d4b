import { writeFileSync } from "node:fs";
import { type ProgramCgroup as Cgroup, removeCgroup } from "../cgroup/cgroup.ts";
import { enterShimGroup } from "../cgroup/cgroup-hierarchies.ts";
import { ExecutionError } from "../driver.ts";
import { describeError } from "../files/file-error.ts";
import { FifoPool, openAliveEnd } from "../io/fifo-pool.ts";
import { createInput } from "../io/program-input.ts";
import type { Deadlines } from "../program/deadlines.ts";
import { limitsFromJson, limitsToJson } from "../program/limits/limits-record.ts";
import {
  claimFile,
  createLogs,
  errorLog,
  findExecutable,
  prepareWorkingDirectory,
  readErrorTail,
} from "../program/files/program-files.ts";
import type { ProgramFolder } from "../program/files/program-folder.ts";
import { hostUser } from "../program/users/program-user.ts";
import type { UserIds } from "../program/users/user.ts";
import { readExit } from "../shim/shim-exit.ts";
import { exitFileBytes } from "../shim/exit-file.ts";
import { type Shim, type ShimRequest, spawnShim } from "../shim/shim.ts";
import { watchAdopted, watchShim } from "../shim/shim-watch.ts";
import { commandLine } from "./command-line.ts";
import { cleanUpCgroup, treeOf, withCgroupView } from "./launch-context.ts";
import { LaunchContexts, type LaunchContextsOptions } from "./launch-contexts.ts";
import { LaunchedProcess } from "./launched-process.ts";
import {
  type Identity,
  type LaunchedProgram,
  type Launcher,
  type LaunchRequest,
  type PreparedProgram,
  type PreparedSlot,
  StartFailure,
} from "./launcher.ts";
import { findLeftExecs, killLeftExecs } from "./exec-tree.ts";
import { isAlive, readBootId, readStat } from "./proc.ts";
import { OpenedFiles } from "./opened-files.ts";
import { killTree } from "./process-tree.ts";
import type { SlotShape } from "../warm/warm-plan.ts";
import type { Execution, SlotWrapping } from "./wrapping.ts";

/** What {@link createProcessLauncher} needs. */
export interface ProcessLauncherOptions extends LaunchContextsOptions {
  /** Directory for its own files, on the file system of the programs' directories. */
  readonly spareFolder: string;
  readonly random: () => number;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}

/**
 * Launches programs as processes behind a shim (see `shim.ts`), in their own session and, where we may, their own cgroup.
 */
export function createProcessLauncher(options: ProcessLauncherOptions): Launcher {
  return new ProcessLauncher(options);
}

/** A shim before its release. */
interface WaitingShim {
  readonly shim: Shim;
  readonly startTime: number;
  /** Settles when the shim is in its cgroup. */
  readonly entered: Promise<void>;
}

interface WaitingSlot {
  readonly cgroup: Cgroup;
  readonly shape: SlotShape;
  readonly slots: SlotWrapping;
}

class ProcessLauncher implements Launcher {
  readonly #options: ProcessLauncherOptions;
  readonly #contexts: LaunchContexts;
  readonly #fifos: FifoPool;
  readonly #bootId = readBootId();

  constructor(options: ProcessLauncherOptions) {
    this.#options = options;
    this.#contexts = new LaunchContexts(options);
    this.#fifos = new FifoPool(options.spareFolder, options.random);
  }

  async prepare(request: LaunchRequest): Promise<PreparedProgram> {
    const { spec, folder } = request;
    createLogs(folder);
    const user = hostUser(spec);
    const cwd = prepareWorkingDirectory(request, user, this.#options.rootOf?.(request));
    // Its directories must exist before they are mounted.
    const cgroup = this.#contexts.create(request);
    const { shim, entered } = await this.#withCgroup(folder, async () => {
      const execution = this.#executionOf(withCgroupView(this.#contexts.current, request), user, cwd);
      const input = await createInput(request, this.#fifos, user);
      return this.#startShim(request, cgroup, execution, execution.changesUser ? undefined : user, {
        ...(input !== undefined && { input }),
        oomScoreAdjustment: spec.oomScoreAdjustment,
      });
    });
    return this.#prepared(request, { shim, entered, startTime: readStat(shim.pid)?.startTime ?? 0 }, cgroup);
  }

  get slotKinds(): readonly SlotShape["kind"][] {
    return this.#options.slots?.kinds ?? [];
  }

  async prepareSlot(request: LaunchRequest, shape: SlotShape): Promise<PreparedSlot> {
    const { slots } = this.#options;
    if (slots === undefined) throw new ExecutionError("Unsupported", "this driver has no warm slots");
    createLogs(request.folder);
    const slot = { claim: claimFile(request.folder) };
    const cgroup = this.#contexts.create(request);
    const { shim, entered } = await this.#withCgroup(request.folder, () =>
      this.#startShim(request, cgroup, slots.prepare(request, shape), undefined, { slot }),
    );
    const startTime = readStat(shim.pid)?.startTime ?? 0;
    try {
      await Promise.all([shim.staged, entered]);
      await slots.whenPrepared(request, shape, () => isAlive(shim.pid, startTime));
    } catch (error) {
      const message = readErrorTail(request.folder, request.spec).trim();
      throw message === "" ? error : new StartFailure(`could not prepare a slot: ${message}`, 126);
    }
    return this.#slot(request, { shim, entered, startTime, cgroup, shape, slots });
  }

  /** Removes a program's cgroup if `start` rejects. Throws {@link StartFailure}. */
  async #withCgroup<T>(folder: ProgramFolder, start: () => Promise<T>): Promise<T> {
    try {
      return await start();
    } catch (error) {
      removeCgroup(this.#contexts.current.hierarchies, folder.tag);
      if (error instanceof StartFailure) throw error;
      throw new StartFailure(`could not start the program: ${describeError(error)}`, 126);
    }
  }

  /** Starts a shim, in its program's cgroup. */
  async #startShim(
    request: LaunchRequest,
    cgroup: Cgroup,
    execution: Execution,
    user: UserIds | undefined,
    more: Pick<ShimRequest, "input" | "slot" | "oomScoreAdjustment">,
  ): Promise<{ readonly shim: Shim; readonly entered: Promise<void> }> {
    const { spec, folder } = request;
    const line = commandLine(request, execution);
    const { hierarchies } = this.#contexts.current;
    const opened = new OpenedFiles();
    try {
      writeFileSync(folder.exit, "\n".repeat(exitFileBytes), { mode: 0o600 });
      const hasFifo = await this.#fifos.take(folder.alive);
      const alive = hasFifo ? opened.add(openAliveEnd(folder.alive)) : ("ignore" as const);
      const shim = await spawnShim({
        command: line.words,
        env: line.env,
        cwd: execution.cwd,
        ...more,
        ...(execution.opened !== undefined && { files: execution.opened }),
        ...(user !== undefined && { user }),
        stdout: opened.open(folder.stdout, "a"),
        stderr: opened.open(errorLog(folder, spec), "a"),
        exit: opened.open(folder.exit, "r+"),
        alive,
        groups: cgroup.entryFiles.slice(0, 4).map((path) => opened.open(path, "w")),
      });
      // Takes as long as writing the spec; both must be complete before the program runs.
      const entered = this.#contexts.hasOwnParent ? enterShimGroup(hierarchies, shim.pid) : Promise.resolve();
      return { shim, entered };
    } finally {
      opened.close();
    }
  }

  async adopt(request: LaunchRequest, identity: Identity): Promise<LaunchedProgram> {
    const shim = { pid: Number(identity.shimPid), startTime: Number(identity.shimStartTime) };
    const isSameBoot = identity.bootId === this.#bootId;
    const isShimAlive = (): boolean => isSameBoot && isAlive(shim.pid, shim.startTime);
    const context = this.#contexts.of(request.folder);
    // If it fails, they end with the program.
    if (isSameBoot) void killLeftExecs(await findLeftExecs(context.hierarchies, request)).catch(() => {});
    return new LaunchedProcess(context, request, {
      shim,
      isShimAlive: isShimAlive(),
      limits: limitsFromJson(identity),
      watch: (onEnd) => watchAdopted(request, isShimAlive, onEnd),
      lostMessage: isSameBoot ? shimKilled : "the machine restarted while the program ran",
    });
  }

  sweepOrphans(): Promise<void> {
    this.#contexts.sweep(this.#options.now());
    return Promise.resolve();
  }

  async sweep(folder: ProgramFolder, deadlines: Deadlines): Promise<void> {
    const context = this.#contexts.of(folder);
    await killTree(treeOf(context, folder), deadlines);
    await cleanUpCgroup(context, folder, deadlines);
  }

  close(): void {
    this.#contexts.close();
  }

  /** What is executed for a program: its command, or the wrapper around it. Throws {@link StartFailure} if the command is missing. */
  #executionOf(request: LaunchRequest, user: UserIds | undefined, cwd: string): Execution {
    const { wrap, rootOf } = this.#options;
    const [first, ...rest] = request.spec.command;
    if (request.spec.isolation !== undefined && wrap === undefined) {
      throw new StartFailure("could not start the program: the process driver does not support isolation", 126);
    }
    const path = findExecutable(request.spec, user, cwd, rootOf?.(request));
    // The shell looks the command up again, which preserves argv[0]; it would parse -x as an option.
    const command = first.startsWith("-") ? path : first;
    const execution: Execution = { command: [command, ...rest], cwd };
    return wrap?.(request, execution) ?? execution;
  }

  /** A slot whose command waits for its release. */
  #slot(request: LaunchRequest, slot: WaitingShim & WaitingSlot): PreparedSlot {
    const { shim, shape, slots } = slot;
    const abandon = (folder: ProgramFolder): Promise<void> => this.#abandon(shim, folder, request.deadlines);
    return {
      ended: shim.ended,
      canRun: (spec) => isAlive(shim.pid, slot.startTime) && slots.canRun(shape.kind, spec),
      abandon: () => abandon(request.folder),
      claim: async (claimed) => {
        try {
          return this.#claim(claimed, slot);
        } catch (error) {
          await abandon(claimed.folder);
          throw error;
        }
      },
    };
  }

  #claim(request: LaunchRequest, { shape, slots, ...slot }: WaitingShim & WaitingSlot): PreparedProgram {
    const { spec } = request;
    const root = this.#options.rootOf?.(request);
    const cwd = prepareWorkingDirectory(request, undefined, root);
    const [first, ...rest] = spec.command;
    const path = findExecutable(spec, undefined, cwd, root);
    const execution: Execution = { command: [first.startsWith("-") ? path : first, ...rest], cwd };
    const isSame = JSON.stringify(spec.limits) === JSON.stringify(shape.template.limits);
    const cgroup = isSame ? slot.cgroup : this.#contexts.create(request);
    return this.#prepared(request, slot, cgroup, async () => {
      slots.bind(request, { ...execution, path }, shape);
      // A slot of an image has nothing that could answer.
      await (shape.kind === "image" ? slot.shim.open() : slot.shim.release());
    });
  }

  async #abandon(shim: Shim, folder: ProgramFolder, deadlines: Deadlines): Promise<void> {
    shim.abandon();
    await shim.ended.then(() => cleanUpCgroup(this.#contexts.current, folder, deadlines));
  }

  /** The program behind a shim that waits for its release. */
  #prepared(
    request: LaunchRequest,
    { shim, startTime, entered }: WaitingShim,
    cgroup: Cgroup,
    release: () => Promise<void> = () => shim.release(),
  ): PreparedProgram {
    const { folder, deadlines } = request;
    const abandon = (): Promise<void> => entered.then(() => this.#abandon(shim, folder, deadlines));
    return {
      identity: { shimPid: shim.pid, shimStartTime: startTime, bootId: this.#bootId, ...limitsToJson(cgroup) },
      release: async () => {
        await entered;
        await release().catch(async (error: unknown) => {
          await abandon();
          throw error;
        });
        const limits = readExit(folder).outsideCgroup
          ? { applied: {}, message: "not enforced: the program could not enter its cgroup" }
          : { applied: cgroup.applied, ...(cgroup.message !== undefined && { message: cgroup.message }) };
        return new LaunchedProcess(this.#contexts.current, request, {
          shim: { pid: shim.pid, startTime },
          isShimAlive: true,
          limits,
          watch: (onEnd) => watchShim(shim, onEnd),
          lostMessage: shimKilled,
        });
      },
      abandon,
    };
  }
}

const shimKilled = "the program's shim was killed, so its exit status is unknown";
