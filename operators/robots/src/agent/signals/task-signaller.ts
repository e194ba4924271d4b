import { constants } from "node:os";
import type { Logger } from "@keelson/controller";
import type { Driver } from "@keelson/execution";
import type { SignalAnswer, SignalMessage } from "../../protocol/messages.ts";
import type { HeldTask } from "../held-task.ts";
import { programId } from "../task-program.ts";

/** Options of {@link TaskSignaller}. */
export interface TaskSignallerOptions {
  readonly driver: Pick<Driver, "get">;
  readonly taskOf: (uid: string) => HeldTask | undefined;
  /** The server's time when this agent first learned it; undefined: not yet, or the robot has no key. */
  readonly since: () => number | undefined;
  readonly publish: (answer: SignalAnswer) => void;
  readonly log: Logger;
}

/** Answers that are kept for repeated messages. A message is repeated for half a minute and valid for five. */
const maxAnswers = 1024;

/**
 * Delivers signals to the programs of tasks.
 *
 * **Guarantees**: a signal is delivered at most once, also if its message is repeated or replayed, to this agent or to a later one.
 */
export class TaskSignaller {
  readonly #options: TaskSignallerOptions;
  /** By id, oldest first. */
  readonly #answers = new Map<string, { readonly answer: SignalAnswer; readonly issuedAt: number }>();
  /** Signals that were issued until then may have been delivered: their answers were dropped. */
  #forgottenUntil = 0;

  constructor(options: TaskSignallerOptions) {
    this.#options = options;
  }

  /** Delivers a signal, unless it was delivered before, and answers. */
  deliver(message: SignalMessage): void {
    const known = this.#answers.get(message.id);
    if (known !== undefined) {
      this.#options.publish(known.answer);
      return;
    }
    const problem = this.#problemOf(message) ?? this.#send(message);
    const { taskUid: task, signal } = message;
    if (problem === undefined) this.#options.log.info({ task, signal }, "delivered a signal");
    else this.#options.log.warn({ task, signal }, `signal not delivered: ${problem}`);
    const answer = { id: message.id, isDelivered: problem === undefined, message: problem ?? "" };
    this.#remember(answer, message.issuedAt);
    this.#options.publish(answer);
  }

  #problemOf({ issuedAt, signal }: SignalMessage): string | undefined {
    const since = this.#options.since();
    if (since === undefined) return "the robot has no key; join it with a one-time token";
    if (issuedAt < since || issuedAt <= this.#forgottenUntil)
      return "it was sent before the agent started, and may have been delivered by the last one";
    return Object.hasOwn(constants.signals, signal) ? undefined : `${JSON.stringify(signal)} is not a signal of this robot`;
  }

  #send({ taskUid, attempt, signal }: SignalMessage): string | undefined {
    const { taskOf, driver } = this.#options;
    const task = taskOf(taskUid);
    if (task === undefined || task.attempt !== attempt) return "the robot does not have this attempt of the task";
    const program = driver.get(programId(taskUid, task.programAttempt ?? attempt, task.run));
    if (task.phase !== "running" || program?.state.kind !== "running") return "the program is not running";
    try {
      program.signal(signal as NodeJS.Signals);
      return undefined;
    } catch (error) {
      return error instanceof Error ? error.message : String(error);
    }
  }

  #remember(answer: SignalAnswer, issuedAt: number): void {
    this.#answers.set(answer.id, { answer, issuedAt });
    const [oldest] = this.#answers;
    if (this.#answers.size <= maxAnswers || oldest === undefined) return;
    this.#answers.delete(oldest[0]);
    this.#forgottenUntil = Math.max(this.#forgottenUntil, oldest[1].issuedAt);
  }
}
