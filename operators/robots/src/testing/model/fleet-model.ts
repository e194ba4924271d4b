import type { DeepReadonly } from "@keelson/api-machinery";
import type { Task } from "../../api/task.ts";
import { after, taskOf } from "../objects.ts";
import { hasCondition } from "../../work/conditions.ts";
import { type FromRobot, ModelRobot, type ToRobot } from "./model-robot.ts";
import { ModelServer } from "./model-server.ts";
import { Simulation } from "./simulation.ts";

const minuteMs = 60_000;
/** Time between two looks at whether a run has settled. */
const settleMinutes = 30;

/** How a run behaves. */
export interface FleetModelOptions {
  readonly seed: number;
  readonly spec: Partial<Task["spec"]>;
  /** Further parts of the spec of a task. Default: none. */
  readonly specOf?: (index: number) => Partial<Task["spec"]>;
  /** Default 3. */
  readonly tasks?: number;
  /** Time between the creation of two tasks. Default 0. */
  readonly creationIntervalMs?: number;
  /** Whether tasks are deleted while they leave a robot. Default false. */
  readonly hasDeletions?: boolean;
  /** Whether at most one program of a task may run. */
  readonly isExclusive: boolean;
  /** Time with faults, in minutes. */
  readonly faultMinutes?: number;
}

/** Result of a run: violated invariants, and what happened, so that a test can tell that faults had an effect. */
export interface FleetModelResult {
  readonly violations: readonly string[];
  readonly moves: number;
  /** Number of tasks that were stopped for others. */
  readonly preempted: number;
  readonly leaseExpiries: number;
  readonly starts: number;
}

const defaultTasks = 3;
const robotNames = ["robot-a", "robot-b", "robot-c"];
const uidOf = (index: number): string => `00000000-0000-4000-8000-00000000000${index}`;

/**
 * Runs tasks on three robots with one core each under random loss, duplication, reordering, partitions, crashes of agents and bridges, reboots, lost records, failing
 * writes, lagging caches and clocks that are off, and checks the invariants of the protocol:
 *
 * - I1: a terminal state never changes.
 * - I2: an attempt starts at most one program.
 * - I3: an exclusive task has at most one program.
 * - I7: a task for which the controller could do something is woken.
 * - I4, I5, I6: once the faults end, every task ends or is gone if it was deleted, and no program runs that its Task does not know.
 */
export class FleetModel {
  readonly #options: FleetModelOptions;
  readonly #simulation: Simulation;
  readonly #server: ModelServer;
  readonly #robots = new Map<string, ModelRobot>();
  readonly #violations: string[] = [];
  readonly #started = new Set<string>();
  readonly #terminal = new Map<string, string>();
  readonly #partitioned = new Set<string>();
  #hasFaults = true;
  #leaseExpiries = 0;

  constructor(options: FleetModelOptions) {
    this.#options = options;
    const simulation = new Simulation(options.seed);
    this.#simulation = simulation;
    this.#server = new ModelServer({
      simulation,
      robotNames,
      maxLagMs: 2_000,
      send: (robot, message) => this.#toRobot(robot, message),
    });
    for (const name of robotNames) {
      const robot = new ModelRobot({
        name,
        simulation,
        rate: simulation.between(0.995, 1.005),
        skewMs: simulation.between(-86_400_000, 86_400_000),
        send: (message) => this.#fromRobot(name, message),
        onStart: (uid, attempt) => this.#onStart(name, uid, attempt),
      });
      this.#robots.set(name, robot);
    }
  }

  /** Runs to the end. */
  async run(): Promise<FleetModelResult> {
    const { faultMinutes = 180, spec, specOf, tasks = defaultTasks, creationIntervalMs = 0 } = this.#options;
    for (let index = 0; index < tasks; index++) {
      const restartPolicy = { attempts: 1, interval: "1h", delay: "5s", mode: "fail" as const };
      const task = taskOf(undefined, {
        uid: uidOf(index),
        name: `task-${index}`,
        spec: { jobName: "", restartPolicy, ...spec, ...specOf?.(index) },
      });
      this.#simulation.after(index * creationIntervalMs, () => {
        this.#server.store.put(task, this.#simulation.nowMs);
      });
    }
    this.#startWork();
    await this.#simulation.runUntil(faultMinutes * minuteMs);
    this.#hasFaults = false;
    await this.#runUntilSettled(faultMinutes * minuteMs);
    for (const task of this.#server.store.list()) this.#checkEnd(task);
    for (let index = 0; index < tasks; index++) this.#checkPrograms(uidOf(index));
    const tasksAtEnd = this.#server.store.list();
    const moves = tasksAtEnd.reduce((sum, task) => sum + (task.status?.moves ?? 0), 0);
    const preempted = tasksAtEnd.filter((task) => hasCondition(task, "Preempted")).length;
    return { violations: this.#violations, moves, preempted, leaseExpiries: this.#leaseExpiries, starts: this.#started.size };
  }

  /** Runs until every task has ended and stayed so for a while, for at most 6 hours. */
  async #runUntilSettled(sinceMs: number): Promise<void> {
    let wasSettled = false;
    for (let minutes = settleMinutes; minutes <= 6 * 60; minutes += settleMinutes) {
      await this.#simulation.runUntil(sinceMs + minutes * minuteMs);
      const isSettled = this.#isSettled;
      if (isSettled && wasSettled) return;
      wasSettled = isSettled;
    }
  }

  get #isSettled(): boolean {
    const tasks = this.#server.store.list();
    const hasEnded = tasks.every(({ status }) => status?.state === "completed" || status?.state === "failed");
    const isDeleting = tasks.some(({ metadata }) => metadata.deletionTimestamp !== undefined);
    const uids = Array.from({ length: this.#options.tasks ?? defaultTasks }, (_, index) => uidOf(index));
    const isRunning = [...this.#robots.values()].some((robot) => uids.some((uid) => robot.running(uid).length > 0));
    return hasEnded && !isDeleting && !isRunning;
  }

  #startWork(): void {
    const simulation = this.#simulation;
    simulation.every(
      () => 4_000,
      () => this.#tick(),
    );
    simulation.every(
      () => 10_000,
      () => this.#server.resend(),
    );
    simulation.every(
      () => simulation.between(3 * minuteMs, 12 * minuteMs),
      () => this.#fault(),
    );
    for (const robot of this.#robots.values()) {
      simulation.every(
        () => 10_000,
        () => robot.heartbeat(),
      );
      simulation.after(simulation.between(0, 5_000), () => robot.connected());
    }
  }

  #tick(): void {
    this.#server.checkRobots();
    // Not now: a decision whose time comes now may be next.
    this.#simulation.after(500, () => {
      for (const missed of this.#server.missed()) this.#violations.push(`I7: ${missed} at ${this.#at()}`);
    });
    for (const robot of this.#robots.values()) robot.guard();
    for (const task of this.#server.store.list()) {
      this.#checkTerminal(task);
      const mayDelete = this.#options.hasDeletions === true && task.status?.displaced !== undefined;
      if (mayDelete && this.#simulation.chance(0.3)) this.#server.delete(task.metadata.uid ?? "");
    }
  }

  #fault(): void {
    if (!this.#hasFaults) return;
    const simulation = this.#simulation;
    const robot = this.#robots.get(robotNames[Math.floor(simulation.random() * robotNames.length)] ?? "");
    if (robot === undefined) return;
    const { name } = robot;
    const kind = Math.floor(simulation.random() * 5);
    if (kind === 0) {
      robot.crash();
      if (simulation.chance(0.3)) robot.loseRecord();
      simulation.after(simulation.between(1_000, 15 * minuteMs), () => this.#returns(robot));
    } else if (kind === 1) {
      robot.reboot();
      if (simulation.chance(0.3)) robot.loseRecord();
      simulation.after(simulation.between(20_000, 10 * minuteMs), () => this.#returns(robot));
    } else if (kind === 2) {
      this.#server.stopBridge();
      simulation.after(simulation.between(1_000, 4 * minuteMs), () => {
        this.#server.startBridge();
        for (const each of this.#robots.values()) if (!this.#partitioned.has(each.name)) each.connected();
      });
    } else {
      this.#partitioned.add(name);
      robot.isConnected = false;
      // The broker notices a broken connection, or it does not.
      if (simulation.chance(0.5)) this.#server.robotDisconnected(name);
      simulation.after(simulation.between(5_000, 40 * minuteMs), () => {
        this.#partitioned.delete(name);
        robot.connected();
      });
    }
  }

  #returns(robot: ModelRobot): void {
    robot.startAgent();
    if (!this.#partitioned.has(robot.name)) robot.connected();
  }

  #fromRobot(name: string, message: FromRobot): void {
    if (message.kind === "status" && message.report.leaseExpired === true) this.#leaseExpiries++;
    this.#deliver(name, () => this.#server.receive(name, message));
  }

  #toRobot(name: string, message: ToRobot): void {
    this.#deliver(name, () => this.#robots.get(name)?.receive(message));
  }

  /** Delivers a message late, twice, in another order, or not at all. */
  #deliver(name: string, deliver: () => void): void {
    const simulation = this.#simulation;
    if (this.#partitioned.has(name)) return;
    if (!this.#hasFaults) {
      simulation.after(simulation.between(1, 50), deliver);
      return;
    }
    if (simulation.chance(0.1)) return;
    const copies = simulation.chance(0.1) ? 2 : 1;
    for (let copy = 0; copy < copies; copy++) {
      // A broker may hold a message for a long time.
      const delayMs = simulation.chance(0.03) ? simulation.between(0, 30 * minuteMs) : simulation.between(1, 3_000);
      simulation.after(delayMs, () => {
        if (!this.#partitioned.has(name)) deliver();
      });
    }
  }

  #onStart(robot: string, uid: string, attempt: number): void {
    const key = `${uid}/${attempt}`;
    if (this.#started.has(key)) this.#violations.push(`I2: attempt ${key} started twice, on ${robot} at ${this.#at()}`);
    this.#started.add(key);
    if (this.#options.isExclusive) this.#checkExclusive();
  }

  #checkExclusive(): void {
    for (let index = 0; index < (this.#options.tasks ?? defaultTasks); index++) {
      const uid = uidOf(index);
      const running = [...this.#robots.values()].flatMap((robot) =>
        robot.running(uid).map((attempt) => `${attempt} on ${robot.name}`),
      );
      if (running.length > 1)
        this.#violations.push(`I3: task ${index} runs as attempts ${running.join(" and ")} at ${this.#at()}`);
    }
  }

  #checkTerminal({ metadata: { uid = "" }, status }: DeepReadonly<Task>): void {
    const state = status?.state ?? "";
    const before = this.#terminal.get(uid);
    if (before !== undefined && before !== state) this.#violations.push(`I1: ${uid} changed from ${before} to ${state}`);
    if (state === "completed" || state === "failed") this.#terminal.set(uid, state);
  }

  #checkEnd({ metadata: { name, deletionTimestamp }, status }: DeepReadonly<Task>): void {
    const state = status?.state ?? "";
    if (deletionTimestamp !== undefined || (state !== "completed" && state !== "failed")) {
      this.#violations.push(`I4: ${name} is ${state} 6 hours after the last fault: ${JSON.stringify(status)}`);
    }
  }

  #checkPrograms(uid: string): void {
    const state = this.#server.store.get(uid)?.status?.state ?? "deleted";
    for (const robot of this.#robots.values()) {
      const running = robot.running(uid);
      if (running.length > 0)
        this.#violations.push(`I5: ${uid} is ${state}, and attempt ${running.join()} runs on ${robot.name}`);
    }
  }

  #at(): string {
    return after(this.#simulation.nowMs);
  }
}
