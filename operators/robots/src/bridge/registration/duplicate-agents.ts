import { type DeepReadonly, ignoreNotFound } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { EventRecorder, Logger } from "@keelson/controller";
import { heldAnnotation } from "../../api/names.ts";
import { Robot } from "../../api/robot.ts";
import { KeyedRates } from "../../broker/keyed-rates.ts";
import type { RegisterMessage } from "../../protocol/messages.ts";
import { AgentConflicts } from "./agent-conflicts.ts";

/** Reports per robot: three, then one per minute. Agents that displace each other keep registering. */
const reportLimit = { burst: 3, perSecond: 1 / 60 };

/** Options of {@link DuplicateAgents}. */
export interface DuplicateAgentsOptions {
  readonly clock: Clock;
  readonly client: Client;
  readonly namespace: string;
  readonly log: Logger;
  readonly events: EventRecorder;
  readonly fieldManager: string;
  /** Queues a write to a robot. At most one of each robot is queued. Returns false if the queue is full. */
  readonly push: (robotId: string, run: () => Promise<void>) => boolean;
}

/** Reports two agents that use the same robot id. If they use the same key, the robot is held until it is approved again. */
export class DuplicateAgents {
  readonly #options: DuplicateAgentsOptions;
  readonly #conflicts = new AgentConflicts();
  readonly #reports: KeyedRates;
  /** Robots whose hold is queued. */
  readonly #holding = new Set<string>();

  constructor(options: DuplicateAgentsOptions) {
    this.#options = options;
    this.#reports = new KeyedRates(options.clock, reportLimit);
  }

  /** Checks a registration. Returns a warning for the agent if there are two. */
  check(robot: DeepReadonly<Robot>, { robotId, instanceId, deviceInfo }: RegisterMessage): string | undefined {
    if (instanceId === undefined) return undefined;
    const { log, events } = this.#options;
    const { hostname } = deviceInfo ?? {};
    const agents = this.#conflicts.register(robotId, { instanceId, ...(hostname === undefined ? {} : { hostname }) });
    if (agents === undefined) return undefined;
    const hosts = [...new Set(agents.map((agent) => agent.hostname ?? "an unknown host"))].join(" and ");
    const warning = `two agents use the id ${robotId} and displace each other, on ${hosts}; stop one of them`;
    if (this.#reports.accept(robotId)) {
      log.warn({ robot: robotId }, warning);
      events.event(robot, { type: "Warning", reason: "DuplicateAgent", note: warning });
    }
    const isHeld = robot.metadata.annotations?.[heldAnnotation] !== undefined;
    if (robot.status?.identity !== undefined && !isHeld) this.#pushHold(robotId, warning);
    return warning;
  }

  /** Handles a change of a Robot: once it is released, the agents that were seen before no longer count. */
  robotChanged({ metadata }: DeepReadonly<Robot>, old: DeepReadonly<Robot> | undefined): void {
    const isHeld = metadata.annotations?.[heldAnnotation] !== undefined;
    if (old?.metadata.annotations?.[heldAnnotation] !== undefined && !isHeld) this.forget(metadata.name ?? "");
  }

  /** Forgets the agents of a robot that was deleted, or released after it was held. */
  forget(robotId: string): void {
    this.#conflicts.robotDeleted(robotId);
  }

  #pushHold(name: string, message: string): void {
    if (this.#holding.has(name)) return;
    this.#holding.add(name);
    const hold = async (): Promise<void> => {
      try {
        await this.#hold(name, message);
      } finally {
        this.#holding.delete(name);
      }
    };
    if (!this.#options.push(name, hold)) this.#holding.delete(name);
  }

  async #hold(name: string, message: string): Promise<void> {
    const { client, namespace, fieldManager } = this.#options;
    const body = { metadata: { annotations: { [heldAnnotation]: message } } };
    await ignoreNotFound(client.patch(Robot, { namespace, name }, { type: "merge", body }, { fieldManager }));
  }
}
