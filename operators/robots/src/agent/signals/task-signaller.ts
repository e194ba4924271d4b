import { constants } from "node:os";
import type { Logger } from "@keelson/controller";
import type { Driver } from "@keelson/execution";
import type { SignalAnswer, SignalMessage } from "../../protocol/messages.ts";
import type { HeldTask } from "../held-task.ts";
import { IssuedOnce } from "../issued-once.ts";
import { runningProgram } from "../tasks/running-program.ts";

/** Options of {@link TaskSignaller}. */
export interface TaskSignallerOptions {
  readonly driver: Pick<Driver, "get">;
  readonly taskOf: (uid: string) => HeldTask | undefined;
  /** The server's time when this agent first learned it; undefined: not yet, or the robot has no key. */
  readonly since: () => number | undefined;
  readonly publish: (answer: SignalAnswer) => void;
  readonly log: Logger;
}

/** Answers that are kept for repeated messages. A message is repeated for half a minute. */
const maxAnswers = 1024;

/**
 * Delivers signals to the programs of tasks.
 *
 * **Guarantees**: a signal is delivered at most once, even if its message is repeated or replayed, to this agent or to a later one.
 */
export class TaskSignaller {
  readonly #options: TaskSignallerOptions;
  readonly #once: IssuedOnce;
  /** By id, oldest first. */
  readonly #answers = new Map<string, SignalAnswer>();

  constructor(options: TaskSignallerOptions) {
    this.#options = options;
    this.#once = new IssuedOnce(options.since);
  }

  /** Delivers a signal, unless it was delivered before, and answers. */
  deliver(message: SignalMessage): void {
    const { id, taskUid: task, signal } = message;
    const known = this.#answers.get(id);
    if (known !== undefined) {
      this.#options.publish(known);
      return;
    }
    const problem = this.#send(message);
    if (problem === undefined) this.#options.log.info({ task, signal }, "delivered a signal");
    else this.#options.log.warn({ task, signal }, `signal not delivered: ${problem}`);
    const answer = { id, isDelivered: problem === undefined, message: problem ?? "" };
    this.#answers.set(id, answer);
    const [oldest] = this.#answers.keys();
    if (this.#answers.size > maxAnswers && oldest !== undefined) this.#answers.delete(oldest);
    this.#options.publish(answer);
  }

  #send({ id, issuedAt, taskUid, attempt, signal }: SignalMessage): string | undefined {
    const { taskOf, driver } = this.#options;
    const problem = this.#once.problemOf(id, issuedAt);
    if (problem !== undefined) return problem;
    if (!Object.hasOwn(constants.signals, signal)) return `${JSON.stringify(signal)} is not a signal of this robot`;
    const program = runningProgram(driver, taskOf(taskUid), { taskUid, attempt });
    if (typeof program === "string") return program;
    try {
      program.signal(signal as NodeJS.Signals);
      return undefined;
    } catch (error) {
      return error instanceof Error ? error.message : String(error);
    }
  }
}
