import type { DeepReadonly } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import { type Cache, silentLogger } from "@keelson/controller";
import { StatusError } from "@keelson/api-machinery";
import { agentFinalizer } from "../../api/names.ts";
import type { Robot } from "../../api/robot.ts";
import type { Task } from "../../api/task.ts";
import { Leases } from "../../bridge/leases.ts";
import { storeReport } from "../../bridge/reports.ts";
import { missingTasks } from "../../bridge/task-deletions.ts";
import { TaskWrites } from "../../bridge/task-writes.ts";
import { isPreemptedBy } from "../../controllers/moves/preemption-decision.ts";
import { hasStatus } from "../../controllers/groups/owned-task-status.ts";
import { decideTask, type TaskDecision } from "../../controllers/tasks/task-decision.ts";
import { dispatchedStatus, statusAfter } from "../../controllers/tasks/task-status.ts";
import { RobotLoads } from "../../placement/robot-loads.ts";
import { onlyCopy } from "../../placement/spread.ts";
import { disconnectPolicyOf } from "../../work/disconnect-policy.ts";
import { t0 } from "../objects.ts";
import { ModelController } from "./model-controller.ts";
import type { FromRobot, ToRobot } from "./model-robot.ts";
import type { Simulation } from "./simulation.ts";
import { conflict, TaskStore } from "./task-store.ts";

const offlineAfterMs = 30_000;

/** What a model server needs. */
export interface ModelServerOptions {
  readonly simulation: Simulation;
  readonly robotNames: readonly string[];
  readonly send: (robot: string, message: ToRobot) => void;
  /** Maximum lag of the caches. */
  readonly maxLagMs: number;
}

/** The bridge and the task controller: the real decisions on a simulated API server, with caches that lag. */
export class ModelServer {
  readonly store = new TaskStore();
  readonly #options: ModelServerOptions;
  readonly #clock: Clock;
  readonly #controller: ModelController;
  readonly #loads = new RobotLoads();
  readonly #heardAtMs = new Map<string, number>();
  readonly #offlineSince = new Map<string, string>();
  /** Work of the bridge by queue, as in the real one. */
  readonly #queues = new Map<string, Promise<void>>();
  #bridge: { readonly writes: TaskWrites; readonly leases: Leases } | undefined;

  constructor(options: ModelServerOptions) {
    this.#options = options;
    this.#clock = options.simulation.clock();
    for (const name of options.robotNames) this.#offlineSince.set(name, new Date(t0).toISOString());
    this.startBridge();
    const { simulation, maxLagMs } = options;
    this.#controller = new ModelController({ simulation, maxLagMs, reconcile: (task) => this.#reconcile(task) });
    this.store.onWrite = (uid, task) => this.#controller.written(uid, task);
    for (const name of options.robotNames) this.#controller.robotChanged(this.#robot(name));
  }

  startBridge(): void {
    const { simulation, maxLagMs } = this.#options;
    const lagMs = simulation.between(0, maxLagMs);
    const cache = {
      list: (_type: unknown, { index }: { readonly index: readonly [string, string] }) => {
        const task = this.store.at(simulation.nowMs - lagMs).get(index[1]);
        return task === undefined ? [] : [task];
      },
    } as unknown as Cache;
    const writes = new TaskWrites({ client: this.#client(), cache, namespace: "default", fieldManager: "bridge" });
    const leases = new Leases({ writes, clock: this.#clock, log: silentLogger, isApproved: () => true });
    this.#bridge = { writes, leases };
  }

  stopBridge(): void {
    this.#bridge = undefined;
  }

  receive(robot: string, message: FromRobot): void {
    const bridge = this.#bridge;
    const { send } = this.#options;
    if (bridge === undefined) return;
    switch (message.kind) {
      case "heartbeat":
        this.#recordReport(robot);
        return;
      case "register":
        this.#recordReport(robot);
        for (const { taskUid, attempt } of message.tasks) {
          const task = this.store.get(taskUid);
          const isDisplaced = task?.status?.displaced?.robot === robot;
          if (task?.spec.targetRobot !== robot && !isDisplaced) this.#sendDelete(robot, taskUid, attempt);
        }
        this.#endMissing(robot, message.tasks);
        this.resend(robot);
        return;
      case "lease":
        this.#push(`leases/${robot}`, async () => {
          const answer = await bridge.leases.answer(robot, message.request);
          if (this.#bridge === bridge) send(robot, { kind: "lease", answer });
        });
        return;
      case "status": {
        const { report } = message;
        const { taskUid, attempt = 0, seq = 0 } = report;
        this.#push(`task/${taskUid}`, async () => {
          const outcome = await storeReport({ writes: bridge.writes, clock: this.#clock, log: silentLogger }, robot, report);
          if (outcome === "postponed" || this.#bridge !== bridge) return;
          if (outcome === "unwanted") this.#sendDelete(robot, taskUid, attempt);
          send(robot, { kind: "ack", taskUid, attempt, seq });
        });
      }
    }
  }

  #endMissing(robot: string, registered: readonly { readonly taskUid: string }[]): void {
    const tasks = this.store.list().filter(({ spec }) => spec.targetRobot === robot);
    for (const { taskUid, attempt } of missingTasks(tasks, registered)) this.#sendDelete(robot, taskUid, attempt);
  }

  /** Marks robots offline that were silent for too long. */
  checkRobots(): void {
    for (const name of this.#options.robotNames) {
      const silentMs = this.#options.simulation.nowMs - (this.#heardAtMs.get(name) ?? Number.NEGATIVE_INFINITY);
      if (silentMs >= offlineAfterMs) this.robotDisconnected(name);
    }
  }

  robotDisconnected(name: string): void {
    if (this.#offlineSince.has(name)) return;
    this.#offlineSince.set(name, new Date(this.#clock.now()).toISOString());
    this.#controller.robotChanged(this.#robot(name));
    const bridge = this.#bridge;
    if (bridge !== undefined) this.#push(`leases/${name}`, () => bridge.leases.robotLost(name));
  }

  /** Sends what robots have not confirmed. */
  resend(robot?: string): void {
    if (this.#bridge === undefined) return;
    for (const task of this.store.list()) {
      const { targetRobot = "" } = task.spec;
      const isDeleting = task.metadata.deletionTimestamp !== undefined;
      if (isDeleting && task.status?.attempt !== undefined && (robot ?? targetRobot) === targetRobot) {
        this.#sendDelete(targetRobot, task.metadata.uid ?? "", task.status.attempt);
      }
      if (!isDeleting && task.status?.state === "dispatching" && (robot ?? targetRobot) === targetRobot) {
        this.#options.send(targetRobot, { kind: "dispatch", payload: JSON.stringify({ action: "create", task }) });
      }
      const { displaced, removedAttempt } = task.status ?? {};
      if (displaced?.stop !== true || removedAttempt === displaced.attempt) continue;
      if ((robot ?? displaced.robot) === displaced.robot) {
        this.#sendDelete(displaced.robot, task.metadata.uid ?? "", displaced.attempt);
      }
    }
  }

  /** Deletes a Task. It stays until its finalizer is removed. */
  delete(uid: string): void {
    const { nowMs } = this.#options.simulation;
    const task = this.store.get(uid);
    if (task === undefined || task.metadata.deletionTimestamp !== undefined) return;
    const deletionTimestamp = new Date(this.#clock.now()).toISOString();
    if (task.metadata.finalizers === undefined) this.store.remove(uid, nowMs);
    else this.store.put({ ...task, metadata: { ...task.metadata, deletionTimestamp } }, nowMs);
  }

  /** Tasks about which the controller would decide otherwise now, although nothing is left in its queue: nothing has woken them. */
  missed(): readonly string[] {
    if (!this.#controller.isIdle) return [];
    return this.#controller.tasks.flatMap((task) => {
      const decision = this.#decide(task);
      if (decision.kind === "leave") return [];
      const isSettled =
        !(decision.kind === "bind" || decision.kind === "dispatch" || decision.kind === "release") &&
        hasStatus(task, statusAfter(task, decision, this.#clock.now()));
      return isSettled
        ? []
        : [`${task.metadata.name} waits although it could ${decision.kind}: ${JSON.stringify(task.status)}`];
    });
  }

  #decide(task: DeepReadonly<Task>): TaskDecision {
    const { robotNames } = this.#options;
    const others = this.#controller.tasks.filter(({ metadata }) => metadata.uid !== task.metadata.uid);
    const now = this.#clock.now();
    return decideTask({
      task,
      job: undefined,
      robots: robotNames.map((name) => this.#robot(name)),
      usesOf: (robot) => this.#loads.usesOf(this.#controller.cache, "default", robot, task.metadata.uid ?? ""),
      preemptorsOf: (victim) => others.filter((each) => isPreemptedBy(victim, each)),
      copies: () => onlyCopy,
      now,
    });
  }

  /** Reconciles a Task as a cache that lags shows it. The process may die between two writes. */
  #reconcile(task: DeepReadonly<Task>): number | undefined {
    const { simulation } = this.#options;
    const decision = this.#decide(task);
    switch (decision.kind) {
      case "leave":
        break;
      case "release":
        if (this.store.get(task.metadata.uid ?? "") === task) this.store.remove(task.metadata.uid ?? "", simulation.nowMs);
        break;
      case "bind": {
        const undo = this.#loads.assume(task, decision.robot);
        const bound = this.store.bind(task, decision.robot, agentFinalizer, simulation.nowMs);
        if (bound === conflict) undo();
        if (bound === conflict || simulation.chance(0.2)) break;
        this.#dispatch(bound, { ...decision, attempt: (task.status?.attempt ?? 0) + 1, isRestart: false });
        break;
      }
      case "dispatch":
        this.#dispatch(task, decision);
        break;
      default: {
        const status = statusAfter(task, decision, this.#clock.now());
        if (!hasStatus(task, status)) this.store.applyStatus(task, status, "controller", simulation.nowMs);
      }
    }
    return "requeueAfterMs" in decision ? decision.requeueAfterMs : undefined;
  }

  #dispatch(
    task: DeepReadonly<Task>,
    attempt: { readonly robot: string; readonly attempt: number; readonly isRestart: boolean },
  ): void {
    const { simulation } = this.#options;
    const isLeased = disconnectPolicyOf(task.spec)?.onRobot === "stop";
    const status = dispatchedStatus(task, { ...attempt, isLeased }, this.#clock.now());
    if (this.store.applyStatus(task, status, "controller", simulation.nowMs) !== conflict) this.resend(attempt.robot);
  }

  #recordReport(robot: string): void {
    this.#heardAtMs.set(robot, this.#options.simulation.nowMs);
    if (this.#offlineSince.delete(robot)) this.#controller.robotChanged(this.#robot(robot));
  }

  #sendDelete(robot: string, uid: string, attempt: number): void {
    const payload = JSON.stringify({ action: "delete", task: { metadata: { uid }, status: { attempt } } });
    this.#options.send(robot, { kind: "dispatch", payload });
  }

  #push(key: string, work: () => Promise<void>): void {
    const next = (this.#queues.get(key) ?? Promise.resolve()).then(work).catch(() => {});
    this.#queues.set(key, next);
    void next.then(() => this.#queues.get(key) === next && this.#queues.delete(key));
  }

  #robot(name: string): DeepReadonly<Robot> {
    const since = this.#offlineSince.get(name);
    const online = {
      type: "Online",
      status: since === undefined ? "True" : "False",
      lastTransitionTime: since ?? "",
      reason: "",
      message: "",
    } as const;
    return {
      metadata: { name, namespace: "default" },
      spec: { robotId: name },
      status: {
        phase: since === undefined ? "Online" : "Offline",
        conditions: [online],
        agentFeatures: ["leases"],
        deviceInfo: { cpu: { logicalCores: 1 } },
      },
    } as unknown as DeepReadonly<Robot>;
  }

  #client(): Client {
    const { simulation } = this.#options;
    const find = (name: string): DeepReadonly<Task> | undefined =>
      this.store.list().find(({ metadata }) => metadata.name === name);
    const failure = (code: number, reason: string): StatusError =>
      new StatusError({ apiVersion: "v1", kind: "Status", metadata: {}, status: "Failure", code, reason, message: reason });
    return {
      get: async (_type: unknown, { name }: { readonly name: string }) => {
        const task = find(name);
        if (task === undefined) throw failure(404, "NotFound");
        return task;
      },
      applyStatus: async (
        _type: unknown,
        { metadata, status }: Pick<Task, "metadata" | "status">,
        { fieldManager }: { readonly fieldManager: string },
      ) => {
        const task = find(metadata.name ?? "");
        if (task === undefined) throw failure(404, "NotFound");
        if (simulation.chance(0.05)) throw failure(503, "ServiceUnavailable");
        const read = { ...task, metadata: { ...task.metadata, resourceVersion: metadata.resourceVersion } };
        const written = this.store.applyStatus(read as DeepReadonly<Task>, status ?? {}, fieldManager, simulation.nowMs);
        if (written === conflict) throw failure(409, "Conflict");
        return written;
      },
    } as unknown as Client;
  }
}
