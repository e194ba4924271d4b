import { type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import type { Change } from "@keelson/controller";
import { Robot } from "../api/robot.ts";
import { Task } from "../api/task.ts";
import { type AckMessage, type StatusMessage, bridgeSubscriptions, topics } from "../protocol/messages.ts";
import { LimitedLog } from "../broker/limited-log.ts";
import type { JoinRequest } from "../identity/join-request.ts";
import { identityOf, mayGetWork } from "../identity/robot-identity.ts";
import { Dispatcher } from "./dispatcher.ts";
import { DuplicateAgents } from "./registration/duplicate-agents.ts";
import { heartbeatOf, Heartbeats } from "./heartbeats.ts";
import { HeartbeatWrites } from "./heartbeat-writes.ts";
import { type Incoming, readIncoming, robotIdOf, robotOfTopic } from "./incoming.ts";
import type { BridgeOptions } from "./bridge-options.ts";
import type { Joins } from "./registration/joins.ts";
import { KeyedQueue } from "./keyed-queue.ts";
import { MqttConnection } from "./mqtt-connection.ts";
import { responseFor } from "./registration/registration-response.ts";
import { RejectionEvents } from "./registration/rejection-events.ts";
import { ownerOf, RegistrationLimits } from "./robot-limits.ts";
import { RobotMessages } from "./robot-messages.ts";
import { Registrations } from "./registration/registrations.ts";
import { Leases } from "./leases.ts";
import { eventOfReport } from "./report-event.ts";
import { TaskSignals } from "./signals/task-signals.ts";
import { storeReport } from "./reports.ts";
import { isUnwanted, type RegisteredTask, TaskDeletions } from "./task-deletions.ts";
import { TaskWrites } from "./task-writes.ts";

const fieldManager = "robots-bridge";

/**
 * Translates between MQTT and the API. It does not choose robots and does not set their phase.
 *
 * **Guarantees**: it has no state that must survive a restart. Dispatches follow from the Tasks. A report is acknowledged once it is
 * stored, and the robot repeats it until then. Reports on one Task are processed in order.
 */
export class Bridge implements AsyncDisposable {
  readonly #options: BridgeOptions;
  readonly #queue: KeyedQueue;
  readonly #registrations: Registrations;
  readonly #writes: TaskWrites;
  readonly #leases: Leases;
  readonly #dispatcher: Dispatcher;
  readonly #heartbeats: Heartbeats;
  readonly #heartbeatWrites: HeartbeatWrites;
  readonly #deletions: TaskDeletions;
  readonly #duplicates: DuplicateAgents;
  readonly #connection: MqttConnection;
  readonly #joins: Joins;
  readonly #signals: TaskSignals;
  readonly #messages: RobotMessages;
  readonly #droppedMessages: RejectionEvents;
  readonly #limitedLog: LimitedLog;
  readonly #limits: RegistrationLimits;
  readonly #unsubscribes: readonly (() => void)[];

  constructor(options: BridgeOptions) {
    const { namespace, client, cache, onChange, clock, log, isJoinToken, bindsCredentials = false } = options;
    this.#options = options;
    this.#joins = options.joins;
    this.#limitedLog = new LimitedLog(log, clock);
    this.#limits = new RegistrationLimits(clock);
    this.#messages = new RobotMessages({
      ...{ clock, log, authority: options.authority },
      hasKey: (robot) => this.#robotNamed(robot)?.status?.identity !== undefined,
      publish: (topic, payload) => this.#connection.publishText(topic, payload),
    });
    this.#duplicates = new DuplicateAgents({
      ...{ clock, client, namespace, log, events: options.events, fieldManager },
      // Without an owner: the clones of a robot may fill its share of the queue.
      push: (robot, run) => this.#queue.push(`robot/${robot}`, run),
    });
    this.#droppedMessages = new RejectionEvents({
      clock,
      events: options.events,
      regarding: (robot) => this.#robotNamed(robot) ?? { ...Robot, metadata: { name: robot, namespace } },
    });
    this.#queue = new KeyedQueue({
      maxConcurrent: 64,
      maxPending: 8192,
      onError: (key, error) => log.error({ key, error: String(error) }, "could not store a message; the sender retries"),
    });
    this.#registrations = new Registrations({ client, cache, namespace, isJoinToken, bindsCredentials, fieldManager, log });
    this.#writes = new TaskWrites({ client, cache, namespace, fieldManager });
    this.#leases = new Leases({ writes: this.#writes, clock, log, isApproved: (robot) => this.#isApproved(robot) });
    this.#deletions = this.#createDeletions();
    this.#signals = new TaskSignals({ ...options, messages: this.#messages });
    this.#dispatcher = new Dispatcher({
      clock,
      taskOf: (uid) => this.#taskOf(uid),
      isOnline: (robot) => this.#robotNamed(robot)?.status?.phase === "Online",
      send: (robot, message) => {
        if (message.action === "create" && !this.#isApproved(robot)) return;
        this.#messages.send(robot, topics.dispatch(robot), message);
      },
    });
    this.#heartbeatWrites = new HeartbeatWrites({ client, clock, namespace, fieldManager, queue: this.#queue });
    this.#heartbeats = new Heartbeats({
      clock,
      statusOf: (robot) => this.#robotNamed(robot)?.status,
      isListening: () => this.#connection.isReady,
      write: (robot, status) => this.#heartbeatWrites.write(robot, status),
    });
    this.#connection = new MqttConnection({
      ...options,
      subscriptions: bridgeSubscriptions,
      onMessage: (topic, payload) => this.#onMessage(topic, payload),
      onReady: () => this.#onReady(),
    });
    this.#unsubscribes = [onChange(Task, (change) => this.#onTask(change)), onChange(Robot, (change) => this.#onRobot(change))];
    for (const task of cache.list(Task, { namespace })) this.#dispatcher.taskChanged(task);
    for (const robot of cache.list(Robot, { namespace })) this.#heartbeats.watch(robot.metadata.name ?? "");
  }

  /** Resolves with the first connect to the broker. Rejects if the broker rejects the credentials. */
  get ready(): Promise<void> {
    return this.#connection.ready;
  }

  /** Sends a message to a robot, signed if it has a key. It may be lost. */
  send(robotId: string, topic: string, message: object): void {
    this.#messages.send(robotId, topic, message);
  }

  /** Sends a robot with a key what it trusts, with its labels and the time. */
  respond(robot: DeepReadonly<Robot>, more: { readonly warning?: string } = {}): void {
    const response = responseFor(robot);
    if (response !== undefined) this.#messages.respond(robot.spec.robotId, { ...response, ...more });
  }

  async stop(): Promise<void> {
    for (const unsubscribe of this.#unsubscribes) unsubscribe();
    this.#dispatcher.stop();
    this.#signals.stop();
    this.#heartbeats.stop();
    this.#heartbeatWrites.stop();
    this.#deletions.stop();
    await this.#queue.close();
    await this.#connection.stop();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  #onReady(): void {
    this.#heartbeats.listening();
    this.#dispatcher.resendAll();
    this.#signals.resend();
    this.#options.onConnected?.();
  }

  #createDeletions(): TaskDeletions {
    return new TaskDeletions({
      clock: this.#options.clock,
      tasksOf: (robot) => this.#options.cache.list(Task, { namespace: this.#options.namespace, index: ["robot", robot] }),
      isUnwanted: (robot, task) => isUnwanted(this.#taskOf(task.taskUid), robot, task),
      mayDelete: (robot) => this.#limits.mayDelete(robot),
      send: (robot, { taskUid, attempt }) => this.#messages.deleteTask(robot, taskUid, attempt),
    });
  }

  #robotNamed(name: string): DeepReadonly<Robot> | undefined {
    return this.#options.cache.get(Robot, { namespace: this.#options.namespace, name });
  }

  #isApproved(name: string): boolean {
    return mayGetWork(this.#robotNamed(name));
  }

  #taskOf(uid: string): DeepReadonly<Task> | undefined {
    return this.#options.cache.list(Task, { namespace: this.#options.namespace, index: ["uid", uid] })[0];
  }

  #onMessage(topic: string, payload: Uint8Array): void {
    const incoming = readIncoming(topic, payload);
    if ("rejected" in incoming) {
      this.#limitedLog.warn(robotOfTopic(topic), { topic: topic.slice(0, 200) }, `invalid MQTT message: ${incoming.rejected}`);
      return;
    }
    // An external broker may still let the robot connect.
    if (incoming.kind !== "join" && "robotId" in incoming && identityOf(this.#robotNamed(incoming.robotId))?.isRevoked) return;
    const robotId = robotIdOf(incoming);
    let isAccepted = true;
    switch (incoming.kind) {
      case "online":
        if (this.#robotNamed(robotId) !== undefined) this.#heartbeats.update(robotId, { connected: incoming.online });
        break;
      case "status": {
        const { message } = incoming;
        isAccepted = this.#queue.push(
          `task/${message.taskUid}`,
          () => this.#storeReport(robotId, message),
          ownerOf("report", robotId),
        );
        break;
      }
      case "lease": {
        const answer = async (): Promise<void> =>
          this.#messages.send(robotId, topics.leaseAnswer(robotId), await this.#leases.answer(robotId, incoming.message));
        isAccepted = this.#queue.push(`leases/${robotId}`, answer, ownerOf("lease", robotId));
        break;
      }
      case "signal-answer": {
        const store = (): Promise<void> => this.#signals.answered(robotId, incoming.message);
        isAccepted = this.#queue.push(`signal/${incoming.message.id}`, store, ownerOf("signal", robotId));
        break;
      }
      case "exec":
        this.#options.execs.receive(robotId, incoming.message);
        break;
      case "join": {
        const answer = (): Promise<void> => this.#answerJoin(robotId, incoming.message);
        isAccepted = this.#queue.push(`robot/${robotId}`, answer, ownerOf("join", robotId));
        break;
      }
      case "rejected":
        this.#droppedMessages.dropped(robotId, incoming.message, this.#limitedLog);
        break;
      default: {
        const owner = ownerOf(incoming.isOwnTopic ? "registration" : "sharedRegistration", robotId);
        const missing = this.#deletions.missing(robotId, incoming.message.tasks);
        isAccepted = this.#queue.push(`robot/${robotId}`, () => this.#storeRegistration(incoming, missing), owner);
      }
    }
    if (!isAccepted) this.#limitedLog.warn(robotId, { topic }, "message dropped: the queue is full; the sender retries");
  }

  async #answerJoin(robotId: string, request: JoinRequest): Promise<void> {
    const answer = await this.#joins.answer(request);
    if ("rejected" in answer) this.#limitedLog.warn(robotId, { robot: robotId }, `join request rejected: ${answer.rejected}`);
    this.#connection.publish(topics.joinAnswer(robotId), answer);
  }

  async #storeRegistration(
    { kind, message, isOwnTopic }: Incoming & { readonly kind: "register" | "heartbeat" },
    missing: readonly RegisteredTask[],
  ): Promise<void> {
    const { robotId, tasks = [] } = message;
    const registration = await this.#registrations.store(message, { kind, isOwnTopic });
    if (registration.kind === "rejected") {
      this.#limitedLog.warn(robotId, { robot: robotId }, `${kind} rejected: ${registration.reason}`);
      if (kind === "register") this.#messages.respond(robotId, { success: false, message: registration.reason, robotId });
      return;
    }
    this.#heartbeats.update(robotId, heartbeatOf(kind, message));
    if (kind === "heartbeat") return;
    if (message.nonce !== undefined) this.#messages.registered(robotId, message.nonce);
    const warning = this.#duplicates.check(registration.robot, message);
    this.respond(registration.robot, warning === undefined ? {} : { warning });
    this.#deletions.registered(robotId, [...tasks, ...missing]);
    if (this.#limits.mayResend(robotId)) this.#dispatcher.resend(robotId);
  }

  async #storeReport(robotId: string, report: StatusMessage): Promise<void> {
    const { clock, log } = this.#options;
    const outcome = await storeReport({ writes: this.#writes, clock, log }, robotId, report);
    if (outcome === "postponed") return;
    const event = outcome === "stored" ? eventOfReport(report) : undefined;
    const regarding = event === undefined ? undefined : this.#taskOf(report.taskUid);
    if (event !== undefined && regarding !== undefined) this.#options.events.event(regarding, event);
    const { taskUid, attempt, seq } = report;
    if (outcome === "unwanted") this.#messages.deleteTask(robotId, taskUid, attempt ?? 0);
    // An original agent sends neither and does not subscribe to acknowledgements.
    if (attempt === undefined || seq === undefined) return;
    this.#messages.send(robotId, topics.ack(robotId, taskUid), { taskUid, attempt, seq } satisfies AckMessage);
  }

  #onTask({ type, object }: Change<Task>): void {
    if (object.metadata.namespace !== this.#options.namespace) return;
    this.#writes.taskChanged(object);
    if (type === "delete") this.#dispatcher.taskDeleted(object.metadata.uid ?? "");
    else this.#dispatcher.taskChanged(object);
  }

  #onRobot({ type, object, old }: Change<Robot>): void {
    if (object.metadata.namespace !== this.#options.namespace) return;
    const name = object.metadata.name ?? "";
    if (type === "delete") {
      this.#heartbeats.robotDeleted(name);
      this.#deletions.robotDeleted(name);
      this.#duplicates.forget(name);
      this.#messages.robotDeleted(name);
      return;
    }
    if (old === undefined || !jsonEquals(responseFor(object), responseFor(old))) this.respond(object);
    this.#duplicates.robotChanged(object, old);
    if (object.status?.phase === "Online" && old?.status?.phase !== "Online") this.#dispatcher.resend(name);
    if (object.status?.phase !== "Online" && old?.status?.phase === "Online") {
      this.#queue.push(`leases/${name}`, () => this.#leases.robotLost(name));
      this.#options.execs.robotLost(name);
    }
  }
}

/** Starts a {@link Bridge}. */
export function startBridge(options: BridgeOptions): Bridge {
  return new Bridge(options);
}
