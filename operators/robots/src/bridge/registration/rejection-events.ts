import type { Clock } from "@keelson/api-machinery/time";
import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";
import type { EventRecorder } from "@keelson/controller";
import type { RobotRejection } from "../../broker/broker-options.ts";
import type { LimitedLog } from "../../broker/limited-log.ts";
import type { RejectedMessage } from "../../protocol/messages.ts";

/** Minimum time between two events about the same robot. A rejected agent retries every few seconds. */
export const rejectionEventIntervalMs = 60_000;

const maxRobotsTracked = 1000;

/** Options of {@link RejectionEvents}. */
export interface RejectionEventsOptions {
  readonly clock: Clock;
  readonly events: EventRecorder;
  /** The object that an event is about: the Robot if it exists, otherwise the Secret with the join token. */
  readonly regarding: (robotId: string) => DeepReadonly<KubernetesObject>;
}

/** Records an event when the broker rejects a robot, at most once a minute per robot. */
export class RejectionEvents {
  readonly #options: RejectionEventsOptions;
  readonly #recordedAt = new Map<string, number>();

  constructor(options: RejectionEventsOptions) {
    this.#options = options;
  }

  /** Logs and records that the agent of a robot dropped a message that the server did not sign. */
  dropped(robotId: string, { topic, reason }: RejectedMessage, log: LimitedLog): void {
    const message = `the agent dropped a message on ${topic}: ${reason}`;
    log.warn(robotId, { robot: robotId }, message);
    this.record({ robotId, reason: "MessageNotGenuine", message });
  }

  record({ robotId, reason, message }: Readonly<Record<keyof RobotRejection, string>>): void {
    const { clock, events, regarding } = this.#options;
    const now = clock.monotonic();
    const last = this.#recordedAt.get(robotId);
    if (last !== undefined && now - last < rejectionEventIntervalMs) return;
    // The oldest entry goes first, so that agents with random ids cannot exhaust the memory.
    this.#recordedAt.delete(robotId);
    this.#recordedAt.set(robotId, now);
    const oldest = this.#recordedAt.keys().next().value;
    if (this.#recordedAt.size > maxRobotsTracked && oldest !== undefined) this.#recordedAt.delete(oldest);
    const note = reason === "MessageNotGenuine" ? message : `robot ${robotId} was rejected: ${message}`;
    events.event(regarding(robotId), { type: "Warning", reason, note });
  }
}
