import { chown, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { ExecutionError, type Exited, ImageError, type Program, resolveLocalUser } from "@keelson/execution";
import { RobotsError, type RobotsErrorCode } from "../../robots-error.ts";
import { containerProgram } from "../containers/container-program.ts";
import { portVariables } from "../checks/task-ports.ts";
import { DeviceClaims } from "../devices/device-claims.ts";
import { devicePaths, missingDevice } from "../devices/task-devices.ts";
import { TaskDownloads } from "../files/task-downloads.ts";
import type { FilesTarget, TemplateChanges } from "../files/task-files.ts";
import { createLogs, linkLogs } from "../files/task-logs.ts";
import { type HeldTask, isWaitingToStart } from "../held-task.ts";
import { InitTasks } from "./init-tasks.ts";
import { orderProblem, type TaskOrder, underPolicy } from "./task-order.ts";
import { writePayload } from "./task-payload.ts";
import { programId, type ProgramName, type ProgramPlace, programSpecOf } from "./task-program.ts";
import { noLogs } from "./task-reports.ts";
import type { TaskRunnerOptions } from "./task-runner.ts";

/** Options of {@link TaskStarts}. */
export interface TaskStartsOptions
  extends Pick<
    TaskRunnerOptions,
    "driver" | "containers" | "guard" | "workDir" | "clock" | "log" | "onEvent" | "taskOf" | "files" | "policy"
  > {
  /** Runs work after the effects on a task so far. */
  readonly enqueue: (uid: string, work: () => Promise<void>) => Promise<void>;
  /** Whether the last record of a task is on disk. */
  readonly isRecorded: (uid: string) => boolean;
  readonly isStopping: () => boolean;
  /** Has the lease of a task apply to an init task. */
  readonly onInitStarted: (name: ProgramName, program: Program) => Promise<void>;
  /** Supervises a program that was started. */
  readonly onStarted: (name: ProgramName, program: Program) => Promise<void>;
}

/** Starts the programs of tasks: fetches and renders their files, then runs them. */
export class TaskStarts {
  readonly #options: TaskStartsOptions;
  readonly #downloads = new TaskDownloads();
  readonly #devices: DeviceClaims;
  readonly #init: InitTasks;

  constructor(options: TaskStartsOptions) {
    this.#options = options;
    this.#init = new InitTasks({
      driver: options.driver,
      guard: options.onInitStarted,
      forget: (id) => options.guard.forget(id),
    });
    this.#devices = new DeviceClaims(options.driver);
  }

  /** Starts the program of a task. With artifacts, this resolves before they are there. */
  async start(name: ProgramName, accepted: TaskOrder): Promise<void> {
    const { uid } = name;
    const { policy } = this.#options;
    // The task may have been deleted while it waited for its turn.
    if (!this.#isWaiting(name)) return;
    if (!this.#options.isRecorded(uid)) {
      // Without a record, the program would run again after a restart of the agent.
      this.#fail(name, "the agent could not record the start of the task; its disk may be full or read-only");
      return;
    }
    const problem = orderProblem(policy, accepted);
    if (problem !== undefined) {
      this.#fail(name, problem, { isPermanent: true });
      return;
    }
    const order = underPolicy(policy, accepted);
    const target = this.#targetOf(uid, order);
    if ("problem" in target) {
      this.#fail(name, `spec.user: ${target.problem}`, { isPermanent: true });
      return;
    }
    // A restart on this robot finds the artifacts in the directory.
    const hasFiles = (order.artifacts ?? []).length === 0 || this.#options.taskOf(uid)?.rendered !== undefined;
    const place = hasFiles ? await this.#placeWithoutPull(name, order, target.dir) : undefined;
    if (place !== undefined && order.init === undefined) {
      await this.#launch(name, order, target, place);
      return;
    }
    if (place === undefined) void this.#options.onEvent({ kind: "downloading", ...name });
    this.#downloads.start(uid, (signal) => this.#download(name, order, target, signal));
  }

  /** Fetches the artifacts of a task and runs its init tasks, then starts its program. Never rejects. */
  async #download(name: ProgramName, order: TaskOrder, target: FilesTarget, signal: AbortSignal): Promise<void> {
    try {
      await prepareFolder(target);
      // Restarts keep what is in the directory.
      if (this.#options.taskOf(name.uid)?.rendered === undefined) await this.#options.files.fetch(order, target, signal);
      const place = await this.#placeOf(order, target.dir, signal);
      if (order.init !== undefined) await this.#init.run(name, order, target.dir, signal);
      void this.#options.enqueue(name.uid, () => this.#launch(name, order, target, place));
    } catch (error) {
      const isDownload = !(error instanceof RobotsError && error.code === "InitFailed");
      if (!signal.aborted) this.#fail(name, textOf(error), { isPermanent: isPermanentFailure(error), isDownload });
    }
  }

  /** Where the program of a task runs. The image of a container is pulled if necessary. */
  async #placeOf({ container }: TaskOrder, dir: string, signal: AbortSignal): Promise<ProgramPlace> {
    const { containers, policy } = this.#options;
    if (container === undefined) return { dir };
    if (containers === undefined) throw new RobotsError("ImageNotFound", "the robot does not run containers");
    const image = await containers.image(container.image, signal);
    return { dir, container: containerProgram(container, { image, dir, policy: policy.docker }) };
  }

  /** Where the program of a task runs; undefined if its image must be pulled, or if that cannot be said yet. */
  async #placeWithoutPull({ uid }: ProgramName, { container }: TaskOrder, dir: string): Promise<ProgramPlace | undefined> {
    if (container === undefined) return { dir };
    const { containers, policy, log } = this.#options;
    try {
      const image = await containers?.find(container.image);
      return image && { dir, container: containerProgram(container, { image, dir, policy: policy.docker }) };
    } catch (error) {
      // Reported when it happens again.
      log.warn({ task: uid }, `could not look up the image ${container.image}: ${textOf(error)}`);
      return undefined;
    }
  }

  async #launch(name: ProgramName, order: TaskOrder, target: FilesTarget, place: ProgramPlace): Promise<void> {
    const { driver, log, files, policy, onEvent, onStarted } = this.#options;
    const { uid } = name;
    if (!this.#isWaiting(name)) return;
    const { devices = [] } = order;
    const id = programId(uid, name.attempt, name.run);
    // Another attempt may find the device.
    const problem = missingDevice(devices) ?? this.#devices.claim(id, devices, policy);
    if (problem !== undefined) {
      this.#fail(name, problem);
      return;
    }
    let program: Program;
    try {
      await prepareFolder(target);
      if (order.payload !== undefined) writePayload(target.dir, order.payload, target.owner);
      if (order.artifacts !== undefined || order.templates !== undefined) {
        const { digests } = files.render(order, target);
        void onEvent({ kind: "rendered", ...name, digests });
      }
      const ports = await portVariables(order.ports ?? []);
      program = await driver.start(programSpecOf(name, order, { ...place, ports, devices: devicePaths(policy, devices) }));
    } catch (error) {
      this.#fail(name, textOf(error), { isPermanent: isPermanentFailure(error) });
      return;
    } finally {
      this.#devices.release(id);
    }
    this.#linkLogs(uid, target.dir, program);
    if (program.limits.message !== undefined) log.warn({ task: uid }, program.limits.message);
    await onStarted(name, program);
  }

  /** The program runs already, and may have changed the directory: a failure must not fail its start. */
  #linkLogs(uid: string, dir: string, { logs }: Program): void {
    try {
      linkLogs(dir, logs);
    } catch (error) {
      this.#options.log.warn({ task: uid }, `could not link the output of the program in ${dir}/logs: ${textOf(error)}`);
    }
  }

  #isWaiting({ uid, attempt, run }: ProgramName): boolean {
    return !this.#options.isStopping() && isWaitingToStart(this.#options.taskOf(uid), attempt, run);
  }

  /** Reports that a program was stopped before it started. */
  reportNeverStarted(name: ProgramName): void {
    const exited: Exited = {
      ...startFailed(this.#options.clock.now(), "the program was not started"),
      reason: "Stopped",
      exitCode: -1,
    };
    void this.#options.onEvent({ kind: "exited", ...name, exited, logs: noLogs });
  }

  /** Renders the templates of running tasks again, because labels or attributes of the robot may have changed. */
  refreshTemplates(tasks: Iterable<HeldTask>): void {
    for (const { uid, phase, order } of tasks) {
      if (phase === "running" && order?.templates !== undefined) void this.#options.enqueue(uid, () => this.#refresh(uid));
    }
  }

  async #refresh(uid: string): Promise<void> {
    const { taskOf, files, log, onEvent } = this.#options;
    const task = taskOf(uid);
    if (task?.phase !== "running" || task.order === undefined) return;
    // Without digests, the last agent died before it recorded them: it is not known what the program has read.
    const { order, rendered = [], programAttempt: attempt = task.attempt, run = 0 } = task;
    const target = this.#targetOf(uid, order);
    if ("problem" in target) return;
    let changes: TemplateChanges;
    try {
      changes = files.render(order, target, rendered);
    } catch (error) {
      log.warn({ task: uid }, `templates keep their content: ${textOf(error)}`);
      return;
    }
    if (changes.changed.length === 0) return;
    const signals = changes.changed.flatMap(({ onChange }) => (typeof onChange === "object" ? [onChange.signal] : []));
    const restart = changes.changed.some(({ onChange }) => onChange === "restart");
    const event = { uid, attempt, run, digests: changes.digests, restart, signals: [...new Set(signals)] };
    void onEvent({ kind: "templates-changed", ...event });
  }

  #targetOf(uid: string, { user, container }: TaskOrder): FilesTarget | { readonly problem: string } {
    // Users of a container are those of its image.
    const owner = user === undefined || container !== undefined ? undefined : resolveLocalUser(user);
    return owner !== undefined && "problem" in owner ? owner : { dir: join(this.#options.workDir, uid), owner };
  }

  /** Cancels the download of a task. When this resolves, it no longer writes files. */
  async cancel(uid: string): Promise<void> {
    await this.#downloads.cancel(uid);
  }

  /** Stops the init tasks of a task whose program does not run any more. */
  async stopInit(uid: string): Promise<void> {
    await this.#init.stop(uid);
  }

  /** Cancels all downloads. */
  async stop(): Promise<void> {
    await this.#downloads.stop();
  }

  #fail(name: ProgramName, message: string, { isPermanent = false, isDownload = false } = {}): void {
    const failure = { exited: startFailed(this.#options.clock.now(), message), logs: noLogs, isPermanent, isDownload };
    void this.#options.onEvent({ kind: "exited", ...name, ...failure });
  }
}

/** The end of a program that was not started. */
export function startFailed(now: number, message: string): Exited {
  return { kind: "exited", reason: "StartFailed", message, exitCode: 126, finishedAt: now };
}

async function prepareFolder({ dir, owner }: FilesTarget): Promise<void> {
  await mkdir(dir, { recursive: true });
  createLogs(dir);
  if (owner !== undefined && process.getuid?.() === 0) await chown(dir, owner.uid, owner.gid);
}

const textOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

const permanentCodes: ReadonlySet<RobotsErrorCode> = new Set([
  ...(["ArtifactForbidden", "InvalidTemplate", "ImageNotFound", "InvalidContainer"] as const),
]);

/** Whether another attempt would fail in the same way. */
function isPermanentFailure(error: unknown): boolean {
  if (error instanceof ExecutionError) return error.code === "InvalidSpec";
  if (error instanceof ImageError) return error.code !== "Unavailable";
  return error instanceof RobotsError && permanentCodes.has(error.code);
}
