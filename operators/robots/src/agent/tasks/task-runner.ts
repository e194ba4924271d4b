import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import { type Driver, type Exited, type Program, readLogTail } from "@keelson/execution";
import type { StatusMessage } from "../../protocol/messages.ts";
import type { AgentContainers } from "../containers/agent-containers.ts";
import type { AgentPolicy } from "../policy/agent-policy.ts";
import type { TaskFiles } from "../files/task-files.ts";
import { HealthChecks } from "../checks/health-checks.ts";
import { initProgramsOf } from "./init-tasks.ts";
import { loadTasks } from "./recovered-task.ts";
import { startFailed, TaskStarts } from "./task-starts.ts";
import { type AgentEffect, type AgentEvent, discard, type HeldTask } from "../held-task.ts";
import { programId, type ProgramName } from "./task-program.ts";
import type { LeaseGuard } from "../leases/lease-guard.ts";
import type { TaskRecords } from "./task-records.ts";
import { logTailBytes, noLogs } from "./task-reports.ts";

/** Options of a {@link TaskRunner}. */
export interface TaskRunnerOptions {
  /** Runs the programs. The runner closes it. */
  readonly driver: Driver;
  /** Images of containers. Undefined if the robot runs none. */
  readonly containers: Pick<AgentContainers, "find" | "image" | "collect"> | undefined;
  readonly records: TaskRecords;
  /** Enforces leases while no agent is alive. */
  readonly guard: LeaseGuard;
  /** Directory of the tasks' directories. */
  readonly workDir: string;
  readonly clock: Clock;
  readonly log: Logger;
  /** Publishes a report. It may be lost. */
  readonly publish: (report: StatusMessage) => void;
  /** Handles what happened to a program; resolves when the decision is on disk. */
  readonly onEvent: (event: AgentEvent) => Promise<void>;
  /** The current state of a task. */
  readonly taskOf: (uid: string) => HeldTask | undefined;
  /** Fetches and renders the files of tasks. */
  readonly files: TaskFiles;
  /** Boot ID of this computer. */
  readonly bootId: string;
  /** The owner's policy. It also applies to tasks that were accepted under an earlier one. */
  readonly policy: AgentPolicy;
}

/** Carries out the agent's decisions: runs programs, keeps records, removes files. Effects on one task run in order. */
export class TaskRunner {
  readonly #options: TaskRunnerOptions;
  readonly #queues = new Map<string, Promise<void>>();
  readonly #followed = new Map<string, Promise<void>>();
  /** Tasks whose last record could not be written. */
  readonly #unsaved = new Set<string>();
  /** Ends of leases by program, by the boot clock. */
  readonly #leaseEnds = new Map<string, number>();
  readonly #starts: TaskStarts;
  readonly #checks: HealthChecks;
  #isStopping = false;

  constructor(options: TaskRunnerOptions) {
    this.#options = options;
    this.#checks = new HealthChecks(options);
    this.#starts = new TaskStarts({
      ...options,
      enqueue: (uid, work) => this.#enqueue(uid, work),
      isRecorded: (uid) => !this.#unsaved.has(uid),
      isStopping: () => this.#isStopping,
      onInitStarted: (name, program) => this.#recordLease(program, programId(name.uid, name.attempt, name.run)),
      onStarted: async (name, program) => {
        await this.#recordLease(program);
        this.#follow(name, program);
      },
    });
  }

  /** Renders the templates of running tasks again, because labels or attributes of the robot may have changed. */
  refreshTemplates(tasks: Iterable<HeldTask>): void {
    this.#starts.refreshTemplates(tasks);
  }

  /** Removes images of containers that no program and none of these tasks uses. */
  async collectImages(tasks: Iterable<HeldTask>): Promise<void> {
    const { containers, log } = this.#options;
    const wanted = new Set([...tasks].flatMap(({ order }) => order?.container?.image ?? []));
    try {
      const removed = (await containers?.collect(wanted)) ?? [];
      if (removed.length > 0) log.info({ images: removed }, "removed unused images");
    } catch (error) {
      log.warn({ error: String(error) }, "could not remove unused images; retrying later");
    }
  }

  /** Carries out effects; resolves when the records are on disk. */
  async run(effects: readonly AgentEffect[]): Promise<void> {
    const saves: Promise<void>[] = [];
    for (const effect of effects) {
      const done = this.#enqueue(effect.uid, () => this.#carryOut(effect));
      if (effect.kind === "save") saves.push(done);
    }
    await Promise.all(saves);
  }

  /** Loads the tasks of the last agent, including those whose record is damaged but whose program is known. */
  load(): Promise<Map<string, HeldTask>> {
    return loadTasks(this.#options);
  }

  /** Continues every task where the last agent stopped, and removes programs that belong to no task. */
  async resume(tasks: ReadonlyMap<string, HeldTask>): Promise<void> {
    const { driver, log } = this.#options;
    await this.#options.guard.retain(new Set(driver.list().map(({ id }) => id)));
    for (const task of tasks.values()) {
      await this.#guardLease(task);
      await this.#resumeTask(task);
    }
    for (const program of driver.list()) {
      const { uid = "", attempt, run = 0, init } = program.spec.metadata ?? {};
      const task = tasks.get(uid);
      const isNeeded = init === undefined || task?.phase === "accepted" || task?.phase === "running";
      if (isNeeded && task?.programAttempt === Number(attempt) && (task.run ?? 0) === Number(run)) continue;
      log.warn({ program: program.id }, "removing a program that belongs to no task");
      void this.#enqueue(uid, async () => {
        await program.stop();
        await program.remove();
      });
    }
  }

  /** Starts no more programs. With `stopPrograms`, stops those that run or are just being started, and waits for their ends. */
  async stop({ stopPrograms }: { readonly stopPrograms: boolean }): Promise<void> {
    this.#isStopping = true;
    this.#checks.stop();
    await this.#starts.stop();
    if (!stopPrograms) return;
    await this.settled();
    const ends = [...this.#followed.values()];
    await Promise.all([...this.#followed.keys()].flatMap((id) => this.#options.driver.get(id)?.stop() ?? []));
    // Their init tasks are stopped when they have ended.
    await Promise.all(ends);
  }

  /** Resolves when all effects so far are carried out. */
  async settled(): Promise<void> {
    await Promise.all(this.#queues.values());
  }

  /** Stops supervising. Programs keep running. */
  async close(): Promise<void> {
    await this.#options.driver.close();
  }

  #taskDir(uid: string): string {
    return join(this.#options.workDir, uid);
  }

  #enqueue(uid: string, work: () => Promise<void>): Promise<void> {
    const next = (this.#queues.get(uid) ?? Promise.resolve()).then(work).catch((error: unknown) => {
      this.#options.log.error({ task: uid, error: String(error) }, "could not execute the next step of a task");
    });
    this.#queues.set(uid, next);
    void next.then(() => this.#queues.get(uid) === next && this.#queues.delete(uid));
    return next;
  }

  async #carryOut(effect: AgentEffect): Promise<void> {
    const { driver, records, publish, onEvent } = this.#options;
    const { uid } = effect;
    switch (effect.kind) {
      case "save":
        return this.#save(effect.task);
      case "forget":
        return records.forget(uid);
      case "publish":
        publish(effect.report);
        return;
      case "start":
        return this.#starts.start({ uid, attempt: effect.attempt, run: effect.run ?? 0 }, effect.order);
      case "request-lease": // The agent does it.
        return;
      case "signal": {
        const program = driver.get(programId(uid, effect.attempt, effect.run));
        if (program?.state.kind === "running") program.signal(effect.signal as NodeJS.Signals);
        return;
      }
      case "stop": {
        const { attempt, run = 0 } = effect;
        await this.#starts.cancel(uid);
        const program = driver.get(programId(uid, attempt, run));
        await program?.stop(effect.graceMs === undefined ? {} : { graceMs: effect.graceMs });
        if (program === undefined) this.#starts.reportNeverStarted({ uid, attempt, run });
        return;
      }
      case "discard": {
        await this.#starts.cancel(uid);
        const program = driver.get(programId(uid, effect.attempt, effect.run));
        await program?.stop();
        await program?.remove();
        await this.#starts.stopInit(uid);
        return;
      }
      case "clear":
        await this.#starts.cancel(uid);
        await rm(this.#taskDir(uid), { recursive: true, force: true });
        if (effect.answer) void onEvent({ kind: "removed", uid });
        return;
    }
  }

  async #save(task: HeldTask): Promise<void> {
    const { records, log } = this.#options;
    try {
      await records.save(task);
      this.#unsaved.delete(task.uid);
      await this.#guardLease(task);
    } catch (error) {
      this.#unsaved.add(task.uid);
      log.error(
        { task: task.uid, error: String(error) },
        "could not write a task record; check whether the disk is full or read-only",
      );
    }
  }

  async #guardLease({ uid, attempt, programAttempt = attempt, run, lease }: HeldTask): Promise<void> {
    if (lease?.held === undefined) return;
    const id = programId(uid, programAttempt, run);
    this.#leaseEnds.set(id, lease.held.untilMs);
    const { driver } = this.#options;
    const program = driver.get(id);
    if (program !== undefined) await this.#recordLease(program);
    for (const each of initProgramsOf(driver, uid)) await this.#recordLease(each, id);
  }

  /** Records the end of the lease of the task whose program is `main`. */
  async #recordLease({ id, state }: Program, main = id): Promise<void> {
    const untilMs = this.#leaseEnds.get(main);
    if (untilMs === undefined || state.kind !== "running") return;
    try {
      await this.#options.guard.record({ id, pid: state.pid, untilMs });
    } catch (error) {
      // The program runs and must be supervised all the same.
      const text = "could not record the end of a lease, which is now enforced only while the agent runs";
      this.#options.log.error({ program: id, error: String(error) }, text);
    }
  }

  /** Reports the start of a program and, later, its exit. */
  #follow({ uid, attempt, run }: ProgramName, program: Program): void {
    const { onEvent } = this.#options;
    // A short program may have exited already; its start is reported all the same.
    const startedAt = program.state.kind === "starting" ? undefined : program.state.startedAt;
    if (startedAt !== undefined) void onEvent({ kind: "started", uid, attempt, run, startedAt });
    this.#checks.watch({ uid, attempt, run }, program, this.#options.taskOf(uid)?.order?.checks ?? []);
    const end = program.exited().then(async (exited) => {
      this.#checks.forget(program.id);
      const [stdout, stderr] = await Promise.all([
        readLogTail(program.logs.stdout, logTailBytes),
        readLogTail(program.logs.stderr, logTailBytes),
      ]);
      await this.#starts.stopInit(uid);
      this.#followed.delete(program.id);
      if (this.#leaseEnds.delete(program.id)) await this.#options.guard.forget(program.id);
      await onEvent({ kind: "exited", uid, attempt, run, exited, logs: { stdout, stderr } });
    });
    this.#followed.set(program.id, end);
  }

  async #resumeTask(task: HeldTask): Promise<void> {
    const { driver, onEvent } = this.#options;
    const { uid, attempt: current, programAttempt: attempt = current, run = 0 } = task;
    if (task.phase === "deleting") {
      await this.run([...discard(task), { kind: "clear", uid, answer: true }]);
      return;
    }
    if (task.phase !== "accepted" && task.phase !== "running") return;
    const program = driver.get(programId(uid, attempt, run));
    if (program !== undefined) {
      this.#follow({ uid, attempt, run }, program);
      // The agent died before it sent the signal, or while the program was being stopped.
      if (task.isReloading === true || task.failedCheck !== undefined) void this.run([{ kind: "stop", uid, attempt, run }]);
    } else if (task.phase === "accepted" && task.lease !== undefined) {
      // It starts once the lease is granted.
    } else if (task.phase === "accepted" && task.order !== undefined) {
      // The intent is on disk and the program is not: it never started.
      await this.run([{ kind: "start", uid, attempt, run, order: task.order }]);
    } else {
      const exited: Exited = {
        ...startFailed(this.#options.clock.now(), "its program is no longer on the robot"),
        reason: "Lost",
        exitCode: -1,
      };
      await onEvent({ kind: "exited", uid, attempt, run, exited, logs: noLogs });
    }
  }
}
