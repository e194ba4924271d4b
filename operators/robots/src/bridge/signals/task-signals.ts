import type { DeepReadonly } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import { type Cache, type EventRecorder, ignoreConflict, type OnChange, readOf } from "@keelson/controller";
import { Task } from "../../api/task.ts";
import { TaskSignal } from "../../api/task-signal.ts";
import { confirmationTimeoutMs, endedStatus } from "../../controllers/signals/signal-decision.ts";
import { signalFieldManager } from "../../controllers/signals/task-signal.ts";
import { type SignalAnswer, type SignalMessage, topics } from "../../protocol/messages.ts";
import type { RobotMessages } from "../robot-messages.ts";

/** Reads TaskSignals with the index `uid`. */
export const signalReads = readOf(TaskSignal, {
  uid: ({ metadata: { uid } }) => (uid === undefined ? [] : [uid]),
});

/** Options of {@link TaskSignals}. */
export interface TaskSignalsOptions {
  readonly client: Client;
  /** Contains TaskSignals with the index of {@link signalReads}, and Tasks. */
  readonly cache: Cache;
  readonly onChange: OnChange;
  readonly namespace: string;
  readonly clock: Clock;
  readonly events: EventRecorder;
  readonly messages: Pick<RobotMessages, "send">;
}

/**
 * Sends the signals of TaskSignals that are in phase Sent to their robots, and records the answers. A signal is sent again after a
 * reconnect until it is confirmed; robots deliver it once.
 */
export class TaskSignals {
  readonly #options: TaskSignalsOptions;
  readonly #unsubscribe: () => void;

  constructor(options: TaskSignalsOptions) {
    this.#options = options;
    this.#unsubscribe = options.onChange(TaskSignal, ({ type, object }) => {
      if (type !== "delete" && object.metadata.namespace === options.namespace) this.#send(object);
    });
  }

  stop(): void {
    this.#unsubscribe();
  }

  /** Sends the signals that were not confirmed again. */
  resend(): void {
    const { cache, namespace } = this.#options;
    for (const signal of cache.list(TaskSignal, { namespace })) this.#send(signal);
  }

  /** Records the answer of a robot. An answer about a signal for another robot, or about one that has ended, has no effect. */
  async answered(robotId: string, { id, isDelivered, message }: SignalAnswer): Promise<void> {
    const { cache, client, clock, events, namespace } = this.#options;
    const [signal] = cache.list(TaskSignal, { namespace, index: ["uid", id] });
    if (signal?.status?.phase !== "Sent" || signal.status.robot !== robotId) return;
    const { name, resourceVersion } = signal.metadata;
    const end = isDelivered
      ? ({ phase: "Delivered", message: `robot ${robotId} has delivered the signal` } as const)
      : ({ phase: "Failed", reason: "Rejected", message: `robot ${robotId}: ${message}` } as const);
    const status = endedStatus(signal.status, end, clock.now());
    const change = { metadata: { name, namespace, resourceVersion }, status };
    const written = await ignoreConflict(client.applyStatus(TaskSignal, change, { fieldManager: signalFieldManager }));
    const task = cache.get(Task, { namespace, name: signal.spec.task });
    if (written === undefined || task === undefined) return;
    const what = `signal ${signal.spec.signal} (TaskSignal ${name})`;
    if (isDelivered) events.event(task, { type: "Normal", reason: "SignalDelivered", note: `${what} was delivered` });
    else events.event(task, { type: "Warning", reason: "SignalFailed", note: `${what} was not delivered: ${end.message}` });
  }

  #send({ metadata, spec, status }: DeepReadonly<TaskSignal>): void {
    if (status?.phase !== "Sent") return;
    const { robot, taskUid, attempt, sentAt = "" } = status;
    const issuedAt = Date.parse(sentAt);
    if (metadata.uid === undefined || robot === undefined || taskUid === undefined || attempt === undefined) return;
    if (!(this.#options.clock.now() < issuedAt + confirmationTimeoutMs)) return;
    const message: SignalMessage = { id: metadata.uid, taskUid, attempt, signal: spec.signal, issuedAt };
    this.#options.messages.send(robot, topics.signals(robot), message);
  }
}
