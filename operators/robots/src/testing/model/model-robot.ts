import type { Exited } from "@keelson/execution";
import { step } from "../../agent/agent-state.ts";
import type { AgentEffect, AgentEvent, AgentState, HeldTask, TaskLease } from "../../agent/held-task.ts";
import { LeaseKeeper } from "../../agent/leases/lease-keeper.ts";
import { defaultRobotPolicy } from "../../agent/policy/robot-policy.ts";
import { readDispatch } from "../../agent/tasks/task-order.ts";
import { leaseDemand, withoutGrant } from "../../agent/leases/task-lease.ts";
import { recoveredTask } from "../../agent/tasks/recovered-task.ts";
import type { LeaseAnswer, LeaseRequest, StatusMessage } from "../../protocol/messages.ts";
import type { Simulation } from "./simulation.ts";

/** A message from a robot. */
export type FromRobot =
  | { readonly kind: "register"; readonly tasks: readonly { readonly taskUid: string; readonly attempt: number }[] }
  | { readonly kind: "heartbeat" }
  | { readonly kind: "status"; readonly report: StatusMessage }
  | { readonly kind: "lease"; readonly request: LeaseRequest };

/** A message to a robot. */
export type ToRobot =
  | { readonly kind: "dispatch"; readonly payload: string }
  | { readonly kind: "ack"; readonly taskUid: string; readonly attempt: number; readonly seq: number }
  | { readonly kind: "lease"; readonly answer: LeaseAnswer };

interface ModelProgram {
  readonly uid: string;
  readonly attempt: number;
  readonly lease: TaskLease | undefined;
  /** Lease end by the boot clock, as the guard knows it. */
  leaseUntilMs: number | undefined;
  isAlive: boolean;
}

/** What a model robot needs. */
export interface ModelRobotOptions {
  readonly name: string;
  readonly simulation: Simulation;
  /** Rate of its boot clock. */
  readonly rate: number;
  readonly skewMs: number;
  readonly send: (message: FromRobot) => void;
  /** Called when a program starts. */
  readonly onStart: (uid: string, attempt: number) => void;
}

/** A robot whose agent is the real state machine, with a simulated disk and simulated programs. */
export class ModelRobot {
  readonly name: string;
  readonly #options: ModelRobotOptions;
  readonly #clock;
  readonly #disk = new Map<string, HeldTask>();
  readonly #programs = new Map<string, ModelProgram>();
  #boots = 0;
  #bootedAtMs = 0;
  #agents = 0;
  #agent: { state: AgentState; readonly keeper: LeaseKeeper; readonly queues: Map<string, Promise<void>> } | undefined;
  isConnected = false;

  constructor(options: ModelRobotOptions) {
    this.name = options.name;
    this.#options = options;
    this.#clock = options.simulation.clock(options);
    this.startAgent();
  }

  /** Attempts of a task whose program is running. */
  running(uid: string): readonly number[] {
    return [...this.#programs.values()].flatMap((program) => (program.isAlive && program.uid === uid ? [program.attempt] : []));
  }

  /** The agent dies. Its programs continue. */
  crash(): void {
    this.#agent?.keeper.stop();
    this.#agent = undefined;
    this.isConnected = false;
  }

  /** The disk loses the record of a task that is not over. Call it while the agent is dead. */
  loseRecord(): void {
    const { simulation } = this.#options;
    const uids = [...this.#disk.values()].flatMap(({ uid, phase }) => (phase === "gone" || phase === "deleting" ? [] : [uid]));
    this.#disk.delete(uids[Math.floor(simulation.random() * uids.length)] ?? "");
  }

  /** The computer restarts: no program survives. */
  reboot(): void {
    this.crash();
    for (const program of this.#programs.values()) program.isAlive = false;
    this.#boots++;
    this.#bootedAtMs = this.#options.simulation.nowMs;
  }

  startAgent(): void {
    if (this.#agent !== undefined) return;
    const instanceId = `${this.name}.${++this.#agents}`;
    const bootId = `boot-${this.#boots}`;
    const tasks = new Map([...this.#disk].map(([uid, task]) => [uid, this.#loaded(task)]));
    for (const program of this.#programs.values()) {
      if (!this.#disk.has(program.uid)) tasks.set(program.uid, this.#recovered(program, bootId));
    }
    const state: AgentState = { robotId: this.name, bootId, tasks };
    const keeper = new LeaseKeeper({
      clock: this.#clock,
      bootMs: () => this.#bootMs(),
      instanceId,
      demand: () => (this.#agent === undefined ? { tasks: [], intervalMs: 1 } : leaseDemand(this.#agent.state)),
      publish: (request) => this.#send({ kind: "lease", request }),
      onEvent: (event) => this.#handle(event),
    });
    this.#agent = { state, keeper, queues: new Map() };
    for (const task of tasks.values()) this.#resume(task);
    keeper.check();
  }

  connected(): void {
    if (this.#agent === undefined) return;
    this.isConnected = true;
    const tasks = [...this.#agent.state.tasks.values()]
      .filter(({ phase }) => phase !== "gone" && phase !== "deleting")
      .map(({ uid, attempt }) => ({ taskUid: uid, attempt }));
    this.#send({ kind: "register", tasks });
    this.#handle({ kind: "connected" });
    this.#agent.keeper.request();
  }

  heartbeat(): void {
    if (this.#agent === undefined || !this.isConnected) return;
    this.#send({ kind: "heartbeat" });
    this.#handle({ kind: "tick" });
  }

  receive(message: ToRobot): void {
    if (this.#agent === undefined) return;
    switch (message.kind) {
      case "ack": {
        const { taskUid: uid, attempt, seq } = message;
        this.#handle({ kind: "ack", uid, attempt, seq });
        return;
      }
      case "lease":
        this.#agent.keeper.answered(message.answer);
        return;
      case "dispatch": {
        const dispatch = readDispatch(Buffer.from(message.payload), {
          ...defaultRobotPolicy,
          robotId: this.name,
        });
        if (typeof dispatch === "string") throw new Error(dispatch);
        const { action, ...rest } = dispatch;
        this.#handle({ kind: action, ...rest } as AgentEvent);
      }
    }
  }

  /** The guard kills programs whose lease has ended, whether or not the agent is alive. */
  guard(): void {
    for (const program of this.#programs.values()) {
      if (program.leaseUntilMs !== undefined && this.#bootMs() >= program.leaseUntilMs) this.#end(program, "Error", 137);
    }
  }

  #bootMs(): number {
    return (this.#options.simulation.nowMs - this.#bootedAtMs) * this.#options.rate;
  }

  #send(message: FromRobot): void {
    if (this.isConnected) this.#options.send(message);
  }

  /** A task as the runner loads it: a leased one that has not started waits for its next lease. */
  #loaded(task: HeldTask): HeldTask {
    return task.phase === "accepted" && !this.#programs.has(keyOf(task)) ? withoutGrant(task) : task;
  }

  /** As the runner recovers a task whose program it finds without a record. */
  #recovered({ uid, attempt, lease, leaseUntilMs: untilMs = 0 }: ModelProgram, bootId: string): HeldTask {
    const metadata = { attempt: String(attempt), ...(lease === undefined ? {} : { lease: JSON.stringify(lease) }) };
    const task = recoveredTask(uid, { spec: { id: uid, command: ["run"], metadata } }, this.#clock.now());
    return task.lease === undefined ? task : { ...task, lease: { ...task.lease, held: { bootId, untilMs } } };
  }

  #resume(task: HeldTask): void {
    const { uid, phase, programAttempt = task.attempt, order } = task;
    if (phase === "deleting") {
      this.#carryOut([
        { kind: "discard", uid, attempt: programAttempt },
        { kind: "clear", uid, answer: true },
      ]);
      return;
    }
    if (phase !== "accepted" && phase !== "running") return;
    const program = this.#programs.get(keyOf(task));
    if (program === undefined) {
      if (phase === "accepted" && task.lease !== undefined) return;
      if (phase === "accepted" && order !== undefined) {
        this.#carryOut([{ kind: "start", uid, attempt: programAttempt, order }]);
      }
      return;
    }
    if (program.isAlive) this.#handle({ kind: "started", uid, attempt: programAttempt, startedAt: 1 });
    else this.#exited(program, "Lost", -1);
  }

  #handle(event: AgentEvent): void {
    if (this.#agent === undefined) return;
    const { state, effects } = step(this.#agent.state, event, this.#clock.now());
    this.#agent.state = state;
    this.#carryOut(effects);
    if (effects.some(({ kind }) => kind === "request-lease")) this.#agent.keeper.request();
  }

  #carryOut(effects: readonly AgentEffect[]): void {
    for (const effect of effects) {
      // Records are on disk before anything else happens.
      if (effect.kind === "save") this.#save(effect.task);
      else if (effect.kind === "forget") this.#disk.delete(effect.uid);
      else this.#enqueue(effect);
    }
  }

  #save(task: HeldTask): void {
    this.#disk.set(task.uid, task);
    const program = this.#programs.get(keyOf(task));
    if (program !== undefined && task.lease?.held !== undefined) program.leaseUntilMs = task.lease.held.untilMs;
  }

  /** Effects on one task run in order. */
  #enqueue(effect: AgentEffect): void {
    const agent = this.#agent;
    if (agent === undefined) return;
    const before = agent.queues.get(effect.uid);
    if (before === undefined && effect.kind !== "stop" && effect.kind !== "discard") {
      this.#act(effect);
      return;
    }
    const next = (before ?? Promise.resolve()).then(async () => {
      if (this.#agent !== agent) return;
      if (effect.kind === "stop" || effect.kind === "discard") await this.#stop(effect);
      else this.#act(effect);
    });
    agent.queues.set(effect.uid, next);
    void next.then(() => agent.queues.get(effect.uid) === next && agent.queues.delete(effect.uid));
  }

  #act(effect: AgentEffect): void {
    const { uid } = effect;
    if (effect.kind === "publish") this.#send({ kind: "status", report: effect.report });
    else if (effect.kind === "start") this.#start(uid, effect.attempt);
    else if (effect.kind === "clear" && effect.answer) this.#handle({ kind: "removed", uid });
  }

  #start(uid: string, attempt: number): void {
    const held = this.#agent?.state.tasks.get(uid);
    if (held?.programAttempt !== attempt || held.phase !== "accepted" || held.lease?.isFenced === true) return;
    const { simulation, onStart } = this.#options;
    const { lease } = held;
    const program: ModelProgram = { uid, attempt, lease, leaseUntilMs: lease?.held?.untilMs, isAlive: true };
    this.#programs.set(`${uid}/${attempt}`, program);
    onStart(uid, attempt);
    this.#handle({ kind: "started", uid, attempt, startedAt: this.#clock.now() });
    simulation.after(simulation.between(10_000, 40 * 60_000), () => {
      if (simulation.chance(0.3)) this.#end(program, "Error", 1);
      else this.#end(program, "Completed", 0);
    });
  }

  async #stop({ uid, attempt, ...effect }: AgentEffect & { readonly kind: "stop" | "discard" }): Promise<void> {
    const key = `${uid}/${attempt}`;
    const program = this.#programs.get(key);
    if (effect.kind === "discard") this.#programs.delete(key);
    if (program === undefined || !program.isAlive) return;
    const { simulation } = this.#options;
    const { graceMs = 5_000 } = effect.kind === "stop" ? effect : {};
    await new Promise<void>((resolve) => {
      simulation.after(simulation.between(0, graceMs / this.#options.rate), () => {
        this.#end(program, "Stopped", 143);
        resolve();
      });
    });
  }

  #end(program: ModelProgram, reason: Exited["reason"], exitCode: number): void {
    if (!program.isAlive) return;
    program.isAlive = false;
    this.#exited(program, reason, exitCode);
  }

  #exited({ uid, attempt }: ModelProgram, reason: Exited["reason"], exitCode: number): void {
    const exited: Exited = { kind: "exited", reason, message: reason, exitCode, startedAt: 1, finishedAt: 2 };
    this.#handle({ kind: "exited", uid, attempt, exited, logs: { stdout: "", stderr: "" } });
  }
}

const keyOf = ({ uid, attempt, programAttempt = attempt }: HeldTask): string => `${uid}/${programAttempt}`;
