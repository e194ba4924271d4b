import type { Clock, Timer } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import type { Exited } from "@keelson/execution";
import { AgentConnection } from "../agent/agent-connection.ts";
import { step } from "../agent/agent-state.ts";
import type { AgentEffect, AgentEvent, AgentState } from "../agent/held-task.ts";
import { defaultRobotPolicy } from "../agent/policy/robot-policy.ts";
import { LeaseKeeper } from "../agent/leases/lease-keeper.ts";
import { nextRestartMs } from "../agent/local-restart.ts";
import { readMessage } from "../agent/read-message.ts";
import { leaseDemand } from "../agent/leases/task-lease.ts";
import type { TaskOrder } from "../agent/tasks/task-order.ts";
import type { AgentPolicy } from "../agent/policy/agent-policy.ts";
import { initTasksFeature, leasesFeature, type RegisterMessage, topics } from "../protocol/messages.ts";

/** How a simulated program ends. Undefined: it runs until it is stopped. */
export type ProgramEnd = { readonly afterMs: number; readonly exitCode: number } | undefined;

/** Options of a {@link SimulatedRobot}. */
export interface SimulatedRobotOptions {
  readonly robotId: string;
  readonly brokerUrl: string;
  readonly token: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly heartbeatIntervalMs: number;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  /** Decides how a program behaves. */
  readonly endOf: (order: TaskOrder) => ProgramEnd;
}

interface Program {
  readonly uid: string;
  readonly attempt: number;
  readonly run: number;
  readonly startedAt: number;
  readonly end: Timer | undefined;
}

/** A robot whose agent is the real state machine and connection, with a simulated computer: no disk and no processes. */
export class SimulatedRobot {
  readonly robotId: string;
  readonly #options: SimulatedRobotOptions;
  readonly #policy: AgentPolicy;
  readonly #leases: LeaseKeeper;
  readonly #programs = new Map<string, Program>();
  #state: AgentState;
  #connection: AgentConnection | undefined;
  #isRegistered = false;
  #heartbeat: Timer | undefined;
  #restart: Timer | undefined;

  constructor(options: SimulatedRobotOptions) {
    const { robotId, clock } = options;
    this.robotId = robotId;
    this.#options = options;
    this.#policy = { robotId, ...defaultRobotPolicy };
    this.#state = { robotId, bootId: `boot-${robotId}`, tasks: new Map() };
    this.#leases = new LeaseKeeper({
      clock,
      bootMs: () => clock.monotonic(),
      instanceId: robotId,
      demand: () => leaseDemand(this.#state),
      publish: (request) => this.#connection?.publish(topics.lease(robotId), request),
      onEvent: (event) => this.#handle(event),
    });
  }

  /** Number of running programs. */
  get running(): number {
    return this.#programs.size;
  }

  /** Connects. Reconnects by itself until {@link disconnect}. */
  connect(): void {
    if (this.#connection !== undefined) return;
    const { brokerUrl, robotId, token, clock, random, log } = this.#options;
    this.#connection = new AgentConnection({
      brokerUrl,
      robotId,
      login: () => ({ password: token }),
      onRejected: () => {},
      clock,
      random,
      log,
      onMessage: async (topic, payload) => this.#onMessage(topic, payload),
      onReady: () => this.#onReady(),
    });
  }

  /** Disconnects, like a robot that leaves the network. Its programs continue. */
  async disconnect(): Promise<void> {
    const connection = this.#connection;
    this.#connection = undefined;
    this.#heartbeat?.cancel();
    await connection?.stop();
  }

  /** Ends the robot and its programs. */
  async stop(): Promise<void> {
    this.#leases.stop();
    this.#restart?.cancel();
    for (const { end } of this.#programs.values()) end?.cancel();
    this.#programs.clear();
    await this.disconnect();
  }

  #onReady(): void {
    this.#isRegistered = false;
    this.#register();
    this.#handle({ kind: "connected" });
    this.#leases.request();
    this.#armHeartbeat();
  }

  #onMessage(topic: string, payload: Uint8Array): void {
    const message = readMessage(topic, payload, this.#policy);
    switch (message.kind) {
      case "dispatch": {
        const { action, ...rest } = message.dispatch;
        this.#handle({ kind: action, ...rest } as AgentEvent);
        return;
      }
      case "response":
        this.#isRegistered = message.isRegistered;
        return;
      case "ack":
        this.#handle(message);
        return;
      case "lease-answer":
        this.#leases.answered(message.leases);
        return;
      case "invalid":
        this.#options.log.warn({ topic, robot: this.robotId }, `invalid message dropped: ${message.reason}`);
    }
  }

  #register(): void {
    const { robotId, token, labels } = this.#options;
    const tasks = [...this.#state.tasks.values()]
      .filter(({ phase }) => phase !== "gone" && phase !== "deleting")
      .map(({ uid, attempt }) => ({ taskUid: uid, attempt }));
    const message: RegisterMessage = {
      robotId,
      token,
      deviceInfo: { hostname: robotId },
      labels,
      bootId: this.#state.bootId,
      instanceId: robotId,
      drivers: this.#policy.drivers,
      features: [leasesFeature, initTasksFeature],
      tasks,
    };
    this.#connection?.publish(topics.register, message);
  }

  #armHeartbeat(): void {
    const { clock, heartbeatIntervalMs, robotId, token } = this.#options;
    this.#heartbeat?.cancel();
    this.#heartbeat = clock.setTimer(heartbeatIntervalMs, () => {
      if (this.#isRegistered) this.#connection?.publish(topics.heartbeat, { robotId, token, bootId: this.#state.bootId });
      else this.#register();
      this.#handle({ kind: "tick" });
      this.#armHeartbeat();
    });
  }

  #handle(event: AgentEvent): void {
    const { state, effects } = step(this.#state, event, this.#options.clock.now());
    this.#state = state;
    for (const effect of effects) this.#carryOut(effect);
    this.#armRestart();
    if (effects.some(({ kind }) => kind === "request-lease")) this.#leases.request();
  }

  #armRestart(): void {
    this.#restart?.cancel();
    const { clock } = this.#options;
    const delayMs = nextRestartMs(this.#state, clock.now());
    if (delayMs !== undefined) this.#restart = clock.setTimer(delayMs, () => this.#handle({ kind: "restart-check" }));
  }

  #carryOut(effect: AgentEffect): void {
    switch (effect.kind) {
      case "publish":
        this.#connection?.publish(topics.status(this.robotId, effect.uid), effect.report);
        return;
      case "start":
        this.#start(effect);
        return;
      case "stop":
      case "discard":
        this.#end(effect.uid, "Stopped", 143);
        return;
      case "clear":
        if (effect.answer) this.#handle({ kind: "removed", uid: effect.uid });
        return;
      case "save":
      case "forget":
      case "request-lease":
      case "signal":
    }
  }

  #start({ uid, attempt, run = 0, order }: AgentEffect & { readonly kind: "start" }): void {
    const { clock, endOf } = this.#options;
    const startedAt = clock.now();
    const behaviour = endOf(order);
    const end =
      behaviour === undefined
        ? undefined
        : clock.setTimer(behaviour.afterMs, () =>
            this.#end(uid, behaviour.exitCode === 0 ? "Completed" : "Error", behaviour.exitCode),
          );
    this.#programs.set(uid, { uid, attempt, run, startedAt, end });
    this.#handle({ kind: "started", uid, attempt, run, startedAt });
  }

  #end(uid: string, reason: Exited["reason"], exitCode: number): void {
    const program = this.#programs.get(uid);
    if (program === undefined) return;
    this.#programs.delete(uid);
    program.end?.cancel();
    const { attempt, run, startedAt } = program;
    const message = reason === "Stopped" ? "stopped" : `exit code ${exitCode}`;
    const exited: Exited = { kind: "exited", reason, message, exitCode, startedAt, finishedAt: this.#options.clock.now() };
    this.#handle({ kind: "exited", uid, attempt, run, exited, logs: { stdout: "", stderr: "" } });
  }
}
