import type { Clock } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import type { Driver } from "@keelson/execution";
import { topics } from "../../protocol/messages.ts";
import { TaskExecs } from "../exec/task-execs.ts";
import type { HeldTask } from "../held-task.ts";
import type { AgentPolicy } from "../policy/agent-policy.ts";
import type { ServerMessage } from "../read-message.ts";
import { TaskSignaller } from "../signals/task-signaller.ts";

/** Options of {@link TaskRequests}. */
export interface TaskRequestsOptions {
  readonly driver: Pick<Driver, "get">;
  readonly policy: AgentPolicy;
  readonly taskOf: (uid: string) => HeldTask | undefined;
  /** The server's time when this agent first learned it; undefined: not yet, or the robot has no key. */
  readonly since: () => number | undefined;
  readonly publish: (topic: string, message: object) => void;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Carries out what users request of the programs of running tasks. */
export class TaskRequests {
  readonly #signaller: TaskSignaller;
  readonly #execs: TaskExecs;

  constructor(options: TaskRequestsOptions) {
    const { policy, publish } = options;
    const [answers, output] = [topics.signalAnswer(policy.robotId), topics.execOutput(policy.robotId)];
    this.#signaller = new TaskSignaller({ ...options, publish: (answer) => publish(answers, answer) });
    this.#execs = new TaskExecs({ ...options, publish: (report) => publish(output, report) });
  }

  /** Handles a request. */
  receive(request: ServerMessage & { readonly kind: "signal" | "exec" }): void {
    if (request.kind === "signal") this.#signaller.deliver(request.signal);
    else this.#execs.receive(request.exec);
  }

  /** Ends all commands. */
  stop(): void {
    this.#execs.stop();
  }
}
