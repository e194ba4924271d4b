import { chown, mkdir, rm, symlink } from "node:fs/promises";
import { isAbsolute, join, resolve } from "node:path";
import type { Timer } from "@keelson/api-machinery/time";
import { createProcessDriver, defaultPath, readLogTail, resolveLocalUser } from "@keelson/execution";
import type { Driver, Exited, Program } from "@keelson/execution";
import type { AgentOptions, RunningAgent } from "../commands/start-agent.ts";
import { robotIdPattern, taskUidPattern, topics } from "../protocol/messages.ts";
import type { RegisterMessage } from "../protocol/messages.ts";
import { connectAgent } from "./agent-connection.ts";
import type { AgentConnection, ConnectMqtt } from "./agent-connection.ts";
import { step } from "./agent-state.ts";
import type { AgentEffect, AgentEvent, AgentState, HeldTask } from "./agent-state.ts";
import { readBootId, readDeviceInfo } from "./read-device-info.ts";
import { readMessage } from "./read-message.ts";
import type { TaskOrder } from "./task-order.ts";
import { openTaskRecords } from "./task-records.ts";
import { logTailBytes } from "./task-reports.ts";

/** What an agent can be given besides what its command gives it. */
export interface AgentExtras {
  /** Runs the programs; the agent closes it. Default: a process driver in `<workDir>/.agent/programs`. */
  readonly driver?: Driver;
  /** Drivers of tasks that this robot's owner allows. Default: `exec` and `raw_exec`. */
  readonly allowedDrivers?: readonly string[];
  /** Default: mqtt.js's. */
  readonly connect?: ConnectMqtt;
  /** Default: `Math.random`. */
  readonly random?: () => number;
}

/** How soon a registration is said again while the server has not answered it. */
const registerAgainMs = 10_000;

/** How long a stopping agent waits for what it is doing. */
const stopPatienceMs = 2000;

/** Reports of a task whose record was damaged go on from here: above any number that it can have reached. */
const seqAfterDamage = 1000;

const programId = (uid: string, attempt: number): string => `${uid}-${attempt}`;

/**
 * Starts a robot's agent: registers, runs what it is given, reports how it goes.
 *
 * **Guarantees**: an attempt of a task is run at most once, whatever is delivered twice and whenever the agent is killed; its
 * end is reported until the server says that it is stored, across lost connections and restarts; tasks outlive the agent
 * (unless `stopTasksOnExit`), and the next one reports their real exit.
 *
 * **Files**: `<workDir>/<task uid>/` is a task's working directory and HOME, with `logs/stdout.log` and `logs/stderr.log`
 * (links to where the execution driver keeps and rotates them). `<workDir>/.agent/` is the agent's own.
 *
 * **Errors**: rejects where `workDir` cannot be used or another agent uses it, naming the process.
 */
export async function startAgent(options: AgentOptions & AgentExtras): Promise<RunningAgent> {
  const { robotId, token, clock, log, labels, heartbeatIntervalMs } = options;
  if (!robotIdPattern.test(robotId)) throw new TypeError(`robotId: ${JSON.stringify(robotId)} is no DNS label`);
  const random = options.random ?? Math.random;
  const workDir = isAbsolute(options.workDir) ? options.workDir : resolve(options.workDir);
  const own = join(workDir, ".agent");
  const driver = options.driver ?? (await createProcessDriver({ dir: join(own, "programs"), clock, random }));
  const records = await openTaskRecords(join(own, "tasks"));
  const policy = { robotId, drivers: options.allowedDrivers ?? ["exec", "raw_exec"] };
  const queues = new Map<string, Promise<void>>();
  const followed = new Map<string, Promise<void>>();
  const bootId = readBootId();
  let state: AgentState = { robotId, tasks: new Map() };
  let isStopping = false;
  let isRegistered = false;
  let timer: Timer | undefined;
  let connection: AgentConnection | undefined;

  const taskDir = (uid: string): string => join(workDir, uid);

  /** Runs `work` after all earlier work on this task. */
  function enqueue(uid: string, work: () => Promise<void>): Promise<void> {
    const next = (queues.get(uid) ?? Promise.resolve()).then(work).catch((error: unknown) => {
      log.error({ task: uid, error: String(error) }, "the agent could not do what it decided");
    });
    queues.set(uid, next);
    void next.then(() => queues.get(uid) === next && queues.delete(uid));
    return next;
  }

  /** Decides and acts; resolves when what was decided is on disk. */
  function handle(event: AgentEvent): Promise<void> {
    const decided = step(state, event, clock.now());
    state = decided.state;
    const saves: Promise<void>[] = [];
    for (const effect of decided.effects) {
      const done = enqueue(effect.uid, () => act(effect));
      if (effect.kind === "save") saves.push(done);
    }
    return Promise.all(saves).then(() => {});
  }

  async function act(effect: AgentEffect): Promise<void> {
    const { uid } = effect;
    switch (effect.kind) {
      case "save":
        return save(effect.task);
      case "forget":
        return records.forget(uid);
      case "publish":
        connection?.publish(topics.status(robotId, uid), effect.report);
        return;
      case "start":
        return start(uid, effect.attempt, effect.order);
      case "discard": {
        const program = driver.get(programId(uid, effect.attempt));
        await program?.stop();
        await program?.remove();
        return;
      }
      case "clear":
        await rm(taskDir(uid), { recursive: true, force: true });
        if (effect.answer) void handle({ kind: "removed", uid });
        return;
    }
  }

  const unsaved = new Set<string>();

  async function save(task: HeldTask): Promise<void> {
    try {
      await records.save(task);
      unsaved.delete(task.uid);
    } catch (error) {
      unsaved.add(task.uid);
      log.error(
        { task: task.uid, error: String(error) },
        "a task's record could not be written; is the disk full or read-only?",
      );
    }
  }

  const failed = (message: string): Exited => ({
    kind: "exited",
    reason: "StartFailed",
    message,
    exitCode: 126,
    finishedAt: clock.now(),
  });

  async function start(uid: string, attempt: number, order: TaskOrder): Promise<void> {
    const fail = (message: string): void =>
      void handle({ kind: "exited", uid, attempt, exited: failed(message), logs: { stdout: "", stderr: "" } });
    // Deleted while it waited for its turn.
    const held = state.tasks.get(uid);
    if (isStopping || held?.attempt !== attempt || held.phase !== "accepted") return;
    if (unsaved.has(uid)) {
      // Run now, it would run again after a restart.
      fail("the robot could not write down that it runs the task; its disk may be full or read-only");
      return;
    }
    const dir = taskDir(uid);
    let program: Program;
    try {
      await mkdir(join(dir, "logs"), { recursive: true });
      const user = order.user === undefined ? undefined : resolveLocalUser(order.user);
      if (user !== undefined && "uid" in user && process.getuid?.() === 0) await chown(dir, user.uid, user.gid);
      program = await driver.start({
        id: programId(uid, attempt),
        command: order.command,
        env: { PATH: defaultPath, HOME: dir, ...order.env },
        cwd: dir,
        ...(order.user !== undefined && { user: order.user }),
        ...(order.limits !== undefined && { limits: order.limits }),
        ...(order.timeoutMs !== undefined && { timeoutMs: order.timeoutMs }),
        ...(order.killGraceMs !== undefined && { killGraceMs: order.killGraceMs }),
        metadata: { uid, attempt: String(attempt) },
      });
      for (const name of ["stdout", "stderr"] as const) {
        await rm(join(dir, "logs", `${name}.log`), { force: true });
        await symlink(program.logs[name], join(dir, "logs", `${name}.log`));
      }
    } catch (error) {
      fail(error instanceof Error ? error.message : String(error));
      return;
    }
    if (program.limits.message !== undefined) log.warn({ task: uid }, program.limits.message);
    follow(uid, attempt, program);
  }

  /** Reports a program's start and, when it comes, its end. */
  function follow(uid: string, attempt: number, program: Program): void {
    if (program.state.kind === "running") {
      void handle({ kind: "started", uid, attempt, startedAt: program.state.startedAt });
    }
    const end = program.exited().then(async (exited) => {
      const [stdout, stderr] = await Promise.all([
        readLogTail(program.logs.stdout, logTailBytes),
        readLogTail(program.logs.stderr, logTailBytes),
      ]);
      followed.delete(program.id);
      await handle({ kind: "exited", uid, attempt, exited, logs: { stdout, stderr } });
    });
    followed.set(program.id, end);
  }

  /** Goes on where an agent before this one ended, wherever that was. */
  async function resume(): Promise<void> {
    const { tasks, damaged } = await records.load();
    const known = new Map(tasks.map((task) => [task.uid, task]));
    for (const uid of damaged) log.error({ task: uid }, "a task's record was damaged and is put aside");
    for (const program of driver.list()) {
      const { uid, attempt } = program.spec.metadata ?? {};
      if (uid === undefined || !taskUidPattern.test(uid)) continue;
      if (known.has(uid)) continue;
      // Its record is damaged: what it runs still has an end to be reported.
      const number = Number(attempt);
      const phase = { phase: "running" as const, seq: seqAfterDamage, isAcknowledged: true, ticks: 0, changedAt: clock.now() };
      known.set(uid, { uid, attempt: number, programAttempt: number, ...phase });
    }
    state = { robotId, tasks: known };
    for (const task of known.values()) await resumeTask(task);
    for (const program of driver.list()) {
      const { uid = "", attempt } = program.spec.metadata ?? {};
      if (known.get(uid)?.programAttempt === Number(attempt)) continue;
      log.warn({ program: program.id }, "a program that belongs to no task is stopped and removed");
      void enqueue(uid, async () => {
        await program.stop();
        await program.remove();
      });
    }
  }

  async function resumeTask(task: HeldTask): Promise<void> {
    const { uid, attempt } = task;
    if (task.phase === "deleting") {
      if (task.programAttempt !== undefined)
        void enqueue(uid, () => act({ kind: "discard", uid, attempt: task.programAttempt ?? 0 }));
      void enqueue(uid, () => act({ kind: "clear", uid, answer: true }));
      return;
    }
    if (task.phase !== "accepted" && task.phase !== "running") return;
    const program = driver.get(programId(uid, attempt));
    if (program !== undefined) {
      follow(uid, attempt, program);
    } else if (task.phase === "accepted" && task.order !== undefined) {
      const { order } = task;
      // The intent is on disk and the program is not: it was never started.
      void enqueue(uid, () => start(uid, attempt, order));
    } else {
      const exited: Exited = { ...failed("its program is not on the robot any more"), reason: "Lost", exitCode: -1 };
      await handle({ kind: "exited", uid, attempt, exited, logs: { stdout: "", stderr: "" } });
    }
  }

  function register(): void {
    const tasks = [...state.tasks.values()]
      .filter((task) => task.phase !== "gone" && task.phase !== "deleting")
      .map((task) => ({ taskUid: task.uid, attempt: task.attempt }));
    const message: RegisterMessage = { robotId, token, deviceInfo: readDeviceInfo(clock.now()), labels, bootId, tasks };
    connection?.publish(topics.register, message);
  }

  /** One timer: the next heartbeat, or the next try to register while nobody has answered. */
  function arm(): void {
    timer?.cancel();
    if (isStopping) return;
    timer = clock.setTimer(isRegistered ? heartbeatIntervalMs : Math.min(heartbeatIntervalMs, registerAgainMs), () => {
      if (isRegistered) {
        const message: RegisterMessage = { robotId, token, deviceInfo: readDeviceInfo(clock.now()), bootId };
        connection?.publish(topics.heartbeat, message);
      } else {
        register();
      }
      void handle({ kind: "tick" });
      arm();
    });
  }

  async function onMessage(topic: string, payload: Uint8Array): Promise<void> {
    if (isStopping) return;
    const told = readMessage(topic, payload, policy);
    switch (told.kind) {
      case "dispatch": {
        const { action, ...rest } = told.dispatch;
        log.info({ task: rest.uid, attempt: rest.attempt }, `told to ${action} a task`);
        await handle({ kind: action, ...rest } as AgentEvent);
        return;
      }
      case "response":
        isRegistered = told.isRegistered;
        if (isRegistered) log.info({ answer: told.answer }, "registered");
        else log.warn({ answer: told.answer }, "the server does not take this robot");
        arm();
        return;
      case "ack":
        await handle(told);
        return;
      case "dropped":
        log.warn({ topic }, `a message was dropped: ${told.reason}`);
    }
  }

  // Before connecting: a dispatch that comes first has to meet what this robot holds.
  await resume();
  connection = connectAgent({
    brokerUrl: options.brokerUrl,
    robotId,
    token,
    clock,
    random,
    log,
    ...(options.connect !== undefined && { connect: options.connect }),
    onMessage,
    onReady: () => {
      isRegistered = false;
      register();
      void handle({ kind: "connected" });
      arm();
    },
  });

  let resolveDone: () => void = () => {};
  const done = new Promise<void>((resolveIt) => {
    resolveDone = resolveIt;
  });

  async function stop(): Promise<void> {
    if (isStopping) return done;
    isStopping = true;
    timer?.cancel();
    if (options.stopTasksOnExit) {
      const ends = [...followed.values()];
      await Promise.all([...followed.keys()].flatMap((id) => driver.get(id)?.stop() ?? []));
      await Promise.all(ends);
    }
    // What was decided is written down and said. A task that is being deleted may take longer to end; the next agent goes on
    // with it.
    let late: Timer | undefined;
    const patience = new Promise<void>((resolvePatience) => {
      late = clock.setTimer(stopPatienceMs, resolvePatience);
    });
    await Promise.race([Promise.all(queues.values()), patience]);
    late?.cancel();
    await connection?.stop();
    await driver.close();
    resolveDone();
  }
  return { stop, done };
}
