import { isJsonObject } from "@keelson/api-machinery";
import { robotIdPattern, taskUidPattern, topics } from "../protocol/messages.ts";

/** A publish of a robot. */
export interface PublishAttempt {
  readonly topic: string;
  readonly qos: number;
  readonly retain: boolean;
  readonly payload: Uint8Array;
}

/**
 * Why robot `id` may not publish a message; undefined if it may.
 *
 * A robot may register and send heartbeats under its own id, report about its tasks, ask for their leases, answer signals, send the output of commands, and publish (retained) whether it is online. It
 * may also write its own `tasks/state`, as an original agent does. That message has no reader and is not retained.
 */
export function publishRejection(id: string, { topic, qos, retain, payload }: PublishAttempt): string | undefined {
  if (qos > 1) return "QoS 2 is not supported";
  if (topic === topics.register || topic === topics.heartbeat) {
    if (retain) return `${topic} must not be retained`;
    return robotIdOf(payload) === id ? undefined : `payload of ${topic} must have robotId ${id}`;
  }
  if (topic === topics.ownRegister(id) || topic === topics.ownHeartbeat(id) || topic === topics.rejected(id)) {
    return retain ? `${topic} must not be retained` : undefined;
  }
  if (topic === topics.online(id)) return payload.length <= 64 ? undefined : `payload of ${topic} is too long`;
  if (topic === topics.lease(id) || topic === topics.signalAnswer(id) || topic === topics.execOutput(id))
    return retain ? `${topic} must not be retained` : undefined;
  const own = `k8s4r/robots/${id}/tasks/`;
  if (topic.startsWith(own)) {
    const [uid, leaf, ...more] = topic.slice(own.length).split("/");
    if (uid === "state" && leaf === undefined) return undefined;
    if (leaf === "status" && more.length === 0 && uid !== undefined && taskUidPattern.test(uid)) {
      return retain ? `${topic} must not be retained` : undefined;
    }
  }
  return `robot ${id} may not publish to ${topic}`;
}

/** Whether robot `id` may subscribe to a topic filter. */
export function maySubscribe(id: string, filter: string): boolean {
  return (
    filter === topics.response(id) ||
    filter === topics.dispatch(id) ||
    filter === topics.ownAcks(id) ||
    filter === topics.leaseAnswer(id) ||
    filter === topics.signals(id) ||
    filter === topics.exec(id) ||
    filter === `k8s4r/robots/${id}/tasks/state`
  );
}

/** Whether an agent that joins as robot `id` may publish a message: only its join request. */
export function mayPublishToJoin(id: string, { topic, qos, retain }: Omit<PublishAttempt, "payload">): boolean {
  return topic === topics.join(id) && qos <= 1 && !retain;
}

/** Whether messages on a topic may be retained. */
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

function robotIdOf(payload: Uint8Array): string | undefined {
  try {
    const message: unknown = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(payload));
    if (!isJsonObject(message) || !Object.hasOwn(message, "robotId")) return undefined;
    return typeof message.robotId === "string" ? message.robotId : undefined;
  } catch {
    return undefined;
  }
}
