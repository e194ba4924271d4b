import { isJsonObject } from "@keelson/api-machinery";
import { robotIdPattern, taskUidPattern, topics } from "../protocol/messages.ts";

/** A message that a robot wants to publish, as much of it as decides whether it may. */
export interface PublishAttempt {
  readonly topic: string;
  readonly qos: number;
  readonly retain: boolean;
  readonly payload: Uint8Array;
}

/**
 * Why robot `id` may not publish this, or undefined where it may.
 *
 * A robot may register and send heartbeats under its own id, report about its tasks, and say (retained) whether it is online.
 * Besides it may write its own `tasks/state`, as an original agent does; nobody reads that, so it is not kept.
 */
export function publishRefusal(id: string, { topic, qos, retain, payload }: PublishAttempt): string | undefined {
  if (qos > 1) return "QoS 2 is not used here";
  if (topic === topics.register || topic === topics.heartbeat) {
    if (retain) return `${topic} is not retained`;
    return namedRobot(payload) === id ? undefined : `payload of ${topic} has to name robotId ${id}`;
  }
  if (topic === topics.online(id)) return payload.length <= 64 ? undefined : `payload of ${topic} is too long`;
  const own = `k8s4r/robots/${id}/tasks/`;
  if (topic.startsWith(own)) {
    const [uid, leaf, ...more] = topic.slice(own.length).split("/");
    if (uid === "state" && leaf === undefined) return undefined;
    if (leaf === "status" && more.length === 0 && uid !== undefined && taskUidPattern.test(uid)) {
      return retain ? `${topic} is not retained` : undefined;
    }
  }
  return `the robot ${id} may not publish to ${topic}`;
}

/** Whether robot `id` may subscribe to this filter. */
export function maySubscribe(id: string, filter: string): boolean {
  return (
    filter === topics.response(id) ||
    filter === topics.dispatch(id) ||
    filter === topics.ownAcks(id) ||
    filter === `k8s4r/robots/${id}/tasks/state`
  );
}

/** Whether a message on this topic is to be kept for those who subscribe later. */
export function mayRetain(topic: string): boolean {
  const [root, kind, id, leaf, ...more] = topic.split("/");
  return (
    root === "k8s4r" &&
    kind === "robots" &&
    id !== undefined &&
    robotIdPattern.test(id) &&
    leaf === "online" &&
    more.length === 0
  );
}

function namedRobot(payload: Uint8Array): string | undefined {
  try {
    const message: unknown = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(payload));
    if (!isJsonObject(message) || !Object.hasOwn(message, "robotId")) return undefined;
    return typeof message.robotId === "string" ? message.robotId : undefined;
  } catch {
    return undefined;
  }
}
