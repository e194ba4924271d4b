import { randomUUID } from "node:crypto";
import { type DeepReadonly, isNotFound } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Cache, Change, Logger } from "@keelson/controller";
import type { OnChange } from "@keelson/controller";
import { Robot } from "../api/robot.ts";
import { Task } from "../api/task.ts";
import {
  type AckMessage,
  type DispatchMessage,
  type RegisterMessage,
  type ResponseMessage,
  type StatusMessage,
  topics,
} from "../protocol/messages.ts";
import { createDispatches } from "./dispatches.ts";
import { createHeartbeats } from "./heartbeats.ts";
import { readIncoming } from "./incoming.ts";
import { createKeyedQueue } from "./keyed-queue.ts";
import { connectMqtt } from "./mqtt-connection.ts";
import { createRegistrations } from "./registrations.ts";
import { createReports } from "./reports.ts";

const fieldManager = "robots-bridge";

/** Options of {@link startBridge}. */
export interface BridgeOptions {
  /** The broker. */
  readonly url: string;
  readonly username?: string;
  readonly password?: string;
  /** Where Robots and Tasks are. */
  readonly namespace: string;
  readonly client: Client;
  /** Has Robots and Tasks with the indexes of `taskReads`. */
  readonly cache: Cache;
  readonly onChange: OnChange;
  readonly clock: Clock;
  readonly log: Logger;
  readonly isJoinToken: (token: string) => boolean;
}

/** A running bridge. */
export interface Bridge {
  /** Settles with the first connect to the broker. Rejects where it refuses the credentials. */
  readonly ready: Promise<void>;
  stop(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Starts the bridge: MQTT to API and back, nothing else. It chooses no robot and calls none offline.
 *
 * **Guarantees**: it holds nothing that has to survive. What robots are to be told follows from the Tasks; what they report
 * is acknowledged when it is stored, and said again by them until then. Reports on one Task are taken in order.
 */
export function startBridge(options: BridgeOptions): Bridge {
  const { url, username, password, namespace, client, cache, onChange, clock, log, isJoinToken } = options;
  const queue = createKeyedQueue({
    atOnce: 64,
    maxPending: 8192,
    onError: (key, error) =>
      log.error({ key, error: String(error) }, "a message was not stored; its sender will send it again"),
  });
  const registrations = createRegistrations({ client, cache, namespace, isJoinToken, fieldManager, log });
  const reports = createReports({ client, cache, clock, namespace, fieldManager, log });
  const robotNamed = (name: string): DeepReadonly<Robot> | undefined => cache.get(Robot, { namespace, name });
  const taskOf = (uid: string): DeepReadonly<Task> | undefined => cache.list(Task, { namespace, index: ["uid", uid] })[0];

  const dispatches = createDispatches({
    clock,
    taskOf,
    isOnline: (robot) => robotNamed(robot)?.status?.phase === "Online",
    send: (robot, message) => connection.publish(topics.dispatch(robot), message),
  });
  const heartbeats = createHeartbeats({
    clock,
    statusOf: (robot) => robotNamed(robot)?.status,
    write: (robot, status) => {
      queue.push(`robot/${robot}`, async () => {
        try {
          await client.applyStatus(Robot, { metadata: { name: robot, namespace }, status }, { fieldManager });
        } catch (error) {
          // Removed meanwhile: the next heartbeat makes it anew.
          if (!isNotFound(error)) throw error;
        }
      });
    },
  });

  const respond = (robotId: string, response: ResponseMessage): void => connection.publish(topics.response(robotId), response);
  const letGo = (robotId: string, uid: string, attempt: number): void => {
    const task = { metadata: { uid }, status: { attempt } } as DispatchMessage["task"];
    connection.publish(topics.dispatch(robotId), { action: "delete", task } satisfies DispatchMessage);
  };

  const takeRegistration = async (kind: "register" | "heartbeat", message: RegisterMessage): Promise<void> => {
    const { robotId, deviceInfo, bootId, tasks = [] } = message;
    const registration = await registrations.take(message);
    if (registration.kind === "refused") {
      log.warn({ robot: robotId }, `${kind} refused: ${registration.why}`);
      if (kind === "register") respond(robotId, { success: false, message: registration.why, robotId });
      return;
    }
    heartbeats.heard(robotId, {
      isAlive: true,
      ...(kind === "register" ? { connected: true } : {}),
      ...(deviceInfo === undefined ? {} : { deviceInfo }),
      ...(bootId === undefined ? {} : { bootId }),
    });
    if (kind === "heartbeat") return;
    const answer = answerTo(registration.robot);
    if (answer !== undefined) respond(robotId, answer);
    for (const { taskUid, attempt } of tasks) {
      const task = taskOf(taskUid);
      if (task === undefined || task.spec.targetRobot !== robotId) letGo(robotId, taskUid, attempt);
    }
    dispatches.repeat(robotId);
  };

  const takeReport = async (robotId: string, report: StatusMessage): Promise<void> => {
    const outcome = await reports.take(robotId, report);
    const { taskUid, attempt, seq } = report;
    if (outcome === "unwanted") letGo(robotId, taskUid, attempt ?? 0);
    // An original agent sends neither, and listens to no acknowledgement.
    if (attempt === undefined || seq === undefined) return;
    connection.publish(topics.ack(robotId, taskUid), { taskUid, attempt, seq } satisfies AckMessage);
  };

  const onMessage = (topic: string, payload: Uint8Array): void => {
    const incoming = readIncoming(topic, payload);
    if ("refused" in incoming) {
      log.warn({ topic: topic.slice(0, 200) }, `MQTT message not read: ${incoming.refused}`);
      return;
    }
    let isTaken = true;
    switch (incoming.kind) {
      case "online": {
        const { robotId, online } = incoming;
        if (robotNamed(robotId) !== undefined) heartbeats.heard(robotId, { connected: online });
        break;
      }
      case "status": {
        const { robotId, message } = incoming;
        isTaken = queue.push(`task/${message.taskUid}`, () => takeReport(robotId, message));
        break;
      }
      default: {
        const { kind, message } = incoming;
        isTaken = queue.push(`robot/${message.robotId}`, () => takeRegistration(kind, message));
      }
    }
    if (!isTaken) log.warn({ topic }, "too many messages wait; this one is dropped, its sender will send it again");
  };

  const onTask = ({ type, object }: Change<Task>): void => {
    if (object.metadata.namespace !== namespace) return;
    reports.seen(object);
    if (type === "delete") dispatches.removed(object.metadata.uid ?? "");
    else dispatches.changed(object);
  };
  const onRobot = ({ type, object, old }: Change<Robot>): void => {
    if (object.metadata.namespace !== namespace) return;
    const name = object.metadata.name ?? "";
    if (type === "delete") {
      heartbeats.removed(name);
      return;
    }
    const answer = answerTo(object);
    const isNew = answer !== undefined && answer.message !== (old === undefined ? undefined : answerTo(old)?.message);
    if (isNew) respond(name, answer);
    if (object.status?.phase === "Online" && old?.status?.phase !== "Online") dispatches.repeat(name);
  };

  const connection = connectMqtt({
    url,
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
    clientId: `k8s4r-server-${randomUUID().slice(0, 8)}`,
    subscriptions: [topics.register, topics.heartbeat, topics.allStatus, topics.allOnline],
    onMessage,
    onReady: () => dispatches.repeatAll(),
    log,
  });
  const unsubscribes = [onChange(Task, onTask), onChange(Robot, onRobot)];
  for (const task of cache.list(Task, { namespace })) dispatches.changed(task);

  const stop = async (): Promise<void> => {
    for (const unsubscribe of unsubscribes) unsubscribe();
    dispatches.stop();
    heartbeats.stop();
    await queue.close();
    await connection.stop();
  };
  return { ready: connection.ready, stop, [Symbol.asyncDispose]: stop };
}

/** What a robot is told about its registration, once it is judged; undefined before. */
function answerTo(robot: DeepReadonly<Robot>): ResponseMessage | undefined {
  const { robotId } = robot.spec;
  if (robot.status?.phase === "Online") return { success: true, message: "Robot registered", robotId };
  const approved = robot.status?.conditions?.find((condition) => condition.type === "Approved");
  if (approved?.status !== "False" || approved.reason === "NotRegistered") return undefined;
  return { success: false, message: approved.message, robotId };
}
