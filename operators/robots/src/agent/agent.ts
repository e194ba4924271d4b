import { randomUUID } from "node:crypto";
import { sleep, type Timer } from "@keelson/api-machinery/time";
import type { AgentOptions, RunningAgent } from "../commands/start-agent.ts";
import { robotIdPattern, topics } from "../protocol/messages.ts";
import { requireCompleteToken } from "../identity/one-time-token.ts";
import { RobotsError } from "../robots-error.ts";
import { AgentMembership } from "./identity/agent-membership.ts";
import type { AgentCredential } from "./identity/agent-credential.ts";
import { type AgentParts, openAgentParts } from "./agent-parts.ts";
import { Announcements } from "./announcements.ts";
import { AgentConnection } from "./agent-connection.ts";
import { step } from "./agent-state.ts";
import type { AgentDependencies } from "./agent-dependencies.ts";
import type { AgentEvent, AgentState } from "./held-task.ts";
import { nextRestartMs } from "./local-restart.ts";
import { LeaseKeeper } from "./leases/lease-keeper.ts";
import { leaseDemand } from "./leases/task-lease.ts";
import { readBootId, readBootMs } from "./read-device-info.ts";
import { GenuineMessages } from "./identity/genuine-messages.ts";
import { readMessage } from "./read-message.ts";
import { TaskRequests } from "./tasks/task-requests.ts";
import { TaskRunner } from "./tasks/task-runner.ts";
import type { RobotLabels } from "./files/robot-labels.ts";
import { type AgentPolicy, agentPolicyOf } from "./policy/agent-policy.ts";
import { defaultRobotPolicy } from "./policy/robot-policy.ts";

/** Retry interval of a registration that the server has not answered. */
const registerRetryMs = 10_000;

/** Maximum time that a stopping agent waits for pending work. */
const stopTimeoutMs = 2000;

/** A robot's agent; see {@link startAgent}. */
class RobotAgent implements RunningAgent {
  readonly #options: AgentOptions & AgentDependencies;
  readonly #policy: AgentPolicy;
  readonly #bootId = readBootId();
  readonly #leases: LeaseKeeper;
  readonly #instanceId: string;
  readonly #credential: AgentCredential;
  readonly #membership: AgentMembership;
  readonly #messages: GenuineMessages;
  readonly #runner: TaskRunner;
  readonly #requests: TaskRequests;
  readonly #robotLabels: RobotLabels;
  readonly #announcements: Announcements;
  #state: AgentState;
  #isStopping = false;
  #isRegistered = false;
  #timer: Timer | undefined;
  #restartTimer: Timer | undefined;
  #connection: AgentConnection | undefined;
  readonly done: Promise<void>;
  #resolveDone: () => void = () => {};

  constructor(options: AgentOptions & AgentDependencies, parts: AgentParts) {
    const { robotId, clock, log } = options;
    this.#options = options;
    this.#membership = new AgentMembership({
      ...options,
      identity: parts.identity,
      random: options.random ?? Math.random,
      serverNow: () => this.#messages.now,
    });
    this.#credential = parts.credential;
    this.#messages = new GenuineMessages({
      ...{ robotId, clock, log },
      identity: parts.identity,
      bootMs: options.bootMs ?? readBootMs,
      report: (message) => this.#connection?.publish(topics.rejected(robotId), message),
      onTime: () => {
        void this.#handle({ kind: "connected" });
        this.#leases.request();
      },
      onTrust: () => this.#membership.trustChanged(),
      register: () => this.#register(),
    });
    this.done = new Promise((resolveDone) => {
      this.#resolveDone = resolveDone;
    });
    this.#instanceId = options.instanceId ?? randomUUID();
    this.#robotLabels = parts.robotLabels;
    this.#policy = agentPolicyOf(robotId, options.policy ?? defaultRobotPolicy, parts);
    this.#state = { robotId, bootId: this.#bootId, tasks: new Map() };
    this.#announcements = new Announcements({
      ...options,
      ...{ policy: this.#policy, membership: this.#membership, credential: parts.credential, messages: this.#messages },
      ...{ bootId: this.#bootId, instanceId: this.#instanceId },
    });
    this.#runner = new TaskRunner({
      ...parts,
      policy: this.#policy,
      bootId: this.#bootId,
      clock,
      log,
      publish: (report) => this.#connection?.publish(topics.status(robotId, report.taskUid), report),
      onEvent: (event) => this.#handle(event),
      taskOf: (uid) => this.#state.tasks.get(uid),
    });
    this.#requests = new TaskRequests({
      ...{ driver: parts.driver, policy: this.#policy, clock, log },
      taskOf: (uid) => this.#state.tasks.get(uid),
      since: () => this.#messages.since,
      publish: (topic, message) => this.#connection?.publish(topic, message),
    });
    this.#leases = new LeaseKeeper({
      clock,
      bootMs: options.bootMs ?? readBootMs,
      instanceId: this.#instanceId,
      demand: () => leaseDemand(this.#state),
      publish: (request) => this.#connection?.publish(topics.lease(robotId), request),
      onEvent: (event) => void this.#handle(event),
    });
  }

  /** Resumes the tasks of the last agent, then connects: a dispatch must find the tasks that this robot already has. */
  async start(): Promise<void> {
    this.#state = { ...this.#state, tasks: await this.#runner.load() };
    await this.#runner.resume(this.#state.tasks);
    this.#leases.check();
    this.#armRestart();
    void this.#runner.collectImages(this.#state.tasks.values());
    // Programs of the last agent are resumed already, even while the robot cannot join.
    this.#membership.join(() => this.#connect(), { again: false });
  }

  #connect(): void {
    if (this.#isStopping) return;
    const { robotId, token = "", brokerUrl, clock, log, connect, random = Math.random } = this.#options;
    this.#connection = new AgentConnection({
      ...{ brokerUrl, robotId, clock, log, random },
      login: () => this.#membership.login ?? { password: this.#credential.password(token) },
      onRejected: () => this.#onRejected(),
      ...(connect !== undefined && { connect }),
      onMessage: (topic, payload) => this.#onMessage(topic, payload),
      onReady: () => this.#onReady(),
    });
  }

  /** The broker rejected the agent: its certificate has expired, its key is revoked, or the Robot was deleted. */
  #onRejected(): void {
    if (this.#membership.joined === undefined) {
      this.#credential.rejected();
      return;
    }
    if (!this.#membership.rejected()) return;
    const connection = this.#connection;
    this.#connection = undefined;
    void connection?.stop().then(() => this.#membership.join(() => this.#connect(), { again: true }));
  }

  async stop(): Promise<void> {
    if (this.#isStopping) return this.done;
    this.#isStopping = true;
    this.#timer?.cancel();
    this.#restartTimer?.cancel();
    await this.#membership.stop();
    this.#leases.stop();
    this.#requests.stop();
    await this.#runner.stop({ stopPrograms: this.#options.stopTasksOnExit });
    await this.#settleWithinTimeout();
    await this.#connection?.stop();
    await this.#runner.close();
    this.#resolveDone();
  }

  /** Waits for pending records and reports. A task whose removal takes longer is left to the next agent. */
  async #settleWithinTimeout(): Promise<void> {
    const cancel = new AbortController();
    const timeout = sleep(this.#options.clock, stopTimeoutMs, cancel.signal).catch(() => {});
    await Promise.race([this.#runner.settled(), timeout]);
    cancel.abort();
  }

  /** Decides and acts; resolves when the decision is on disk. */
  async #handle(event: AgentEvent): Promise<void> {
    const { state, effects } = step(this.#state, event, this.#options.clock.now());
    this.#state = state;
    const done = this.#runner.run(effects);
    if (event.kind === "started") void this.#runner.collectImages(state.tasks.values());
    this.#armRestart();
    if (effects.some(({ kind }) => kind === "request-lease")) void done.then(() => this.#leases.request());
    await done;
  }

  /** Arms the timer of the next restart on this robot. */
  #armRestart(): void {
    this.#restartTimer?.cancel();
    this.#restartTimer = undefined;
    const { clock } = this.#options;
    const delayMs = nextRestartMs(this.#state, clock.now());
    if (delayMs === undefined || this.#isStopping) return;
    this.#restartTimer = clock.setTimer(delayMs, () => void this.#handle({ kind: "restart-check" }));
  }

  #onReady(): void {
    this.#isRegistered = false;
    this.#register();
    void this.#handle({ kind: "connected" });
    this.#leases.request();
    this.#armTimer();
  }

  async #onMessage(topic: string, received: Uint8Array): Promise<void> {
    if (this.#isStopping) return;
    const { log } = this.#options;
    const payload = await this.#messages.open(topic, received);
    if (payload === undefined) return;
    const message = readMessage(topic, payload, this.#policy);
    switch (message.kind) {
      case "dispatch": {
        const { action, ...rest } = message.dispatch;
        log.info({ task: rest.uid, attempt: rest.attempt }, `received ${action} of a task`);
        await this.#handle({ kind: action, ...rest } as AgentEvent);
        return;
      }
      case "response":
        this.#isRegistered = message.isRegistered;
        if (message.warning !== "") log.warn({ robot: this.#options.robotId }, message.warning);
        if (message.isCredentialBound) await this.#credential.bound();
        if (message.labels !== undefined && (await this.#robotLabels.update(message.labels))) this.#refreshTemplates();
        if (this.#isRegistered) log.info({ answer: message.answer }, "registered");
        else log.warn({ answer: message.answer }, "the server rejected the registration");
        this.#armTimer();
        return;
      case "ack":
        await this.#handle(message);
        return;
      case "lease-answer":
        this.#leases.answered(message.leases);
        return;
      case "exec":
      case "signal":
        this.#requests.receive(message);
        return;
      case "invalid":
        log.warn({ topic }, `invalid message dropped: ${message.reason}`);
    }
  }

  #refreshTemplates(): void {
    this.#runner.refreshTemplates(this.#state.tasks.values());
  }

  #register(): void {
    const { topic, message } = this.#announcements.registration(this.#state);
    this.#connection?.publish(topic, message);
  }

  #sendHeartbeat(): void {
    const { topic, message } = this.#announcements.heartbeat();
    this.#connection?.publish(topic, message);
  }

  /** Arms the timer of the next heartbeat, or the next registration while none was accepted. */
  #armTimer(): void {
    this.#timer?.cancel();
    if (this.#isStopping) return;
    const { clock, heartbeatIntervalMs } = this.#options;
    const delayMs = this.#isRegistered ? heartbeatIntervalMs : Math.min(heartbeatIntervalMs, registerRetryMs);
    this.#timer = clock.setTimer(delayMs, () => {
      if (this.#isRegistered) this.#sendHeartbeat();
      else this.#register();
      void this.#handle({ kind: "tick" });
      this.#refreshTemplates();
      this.#armTimer();
    });
  }
}

/**
 * Starts a robot's agent: it registers, runs the tasks that are dispatched to it and reports their status.
 *
 * **Guarantees**: an attempt of a task runs at most once, even if messages are delivered twice or the agent is killed. Its exit is
 * reported until the server acknowledges it, across lost connections and restarts. Tasks outlive the agent (unless
 * `stopTasksOnExit` is set), and the next agent reports their real exit.
 *
 * **Files**: `<workDir>/<task uid>/` is a task's working directory and HOME, with `logs/stdout.log` and `logs/stderr.log` (links to
 * the execution driver's rotated files). `<workDir>/.agent/` belongs to the agent.
 *
 * **Errors**: rejects if `workDir` is unusable or in use by another agent, and names that process.
 */
export async function startAgent(options: AgentOptions & AgentDependencies): Promise<RunningAgent> {
  const { robotId } = options;
  if (!robotIdPattern.test(robotId)) {
    throw new RobotsError("InvalidRobotId", `robotId: ${JSON.stringify(robotId)} must be a DNS label of at most 63 characters`);
  }
  requireCompleteToken(options.token ?? "");
  const parts = await openAgentParts(options);
  try {
    const agent = new RobotAgent(options, parts);
    await agent.start();
    return agent;
  } catch (error) {
    // The agent may be started again in this process.
    await parts.driver.close().catch(() => {});
    throw error;
  }
}
