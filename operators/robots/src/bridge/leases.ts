import type { DeepReadonly } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import type { Task } from "../api/task.ts";
import type { LeaseAnswer, LeaseRequest } from "../protocol/messages.ts";
import { decideLease, type LeaseDecision } from "./lease-decision.ts";
import { ownedStatus } from "./report-decision.ts";
import type { TaskWrites } from "./task-writes.ts";

type TaskStatus = NonNullable<Task["status"]>;

/** Options of {@link Leases}. */
export interface LeasesOptions {
  readonly writes: TaskWrites;
  readonly clock: Clock;
  readonly log: Logger;
  /** Whether a robot is approved. Leases of other robots are refused. */
  readonly isApproved: (robotId: string) => boolean;
}

/** The lease of an attempt that this bridge has renewed. */
interface GrantedLease {
  readonly attempt: number;
  /** The time that this bridge has recorded. */
  readonly grantsUntil: string;
  readonly grantedAtMs: number;
}

/**
 * Grants leases of attempts to robots. Requests and releases of one robot must be passed one after the other.
 *
 * **Guarantees**: after `status.lease.grantsUntil` of a Task, no lease of its attempt is granted. See {@link decideLease}.
 */
export class Leases {
  readonly #options: LeasesOptions;
  readonly #granted = new Map<string, Map<string, GrantedLease>>();

  constructor(options: LeasesOptions) {
    this.#options = options;
  }

  /** Answers a request. A task that could not be decided on is in neither list of the answer; the robot asks again. */
  async answer(robotId: string, { nonce, tasks }: LeaseRequest): Promise<LeaseAnswer> {
    const granted: LeaseRequest["tasks"][number][] = [];
    const refused: LeaseRequest["tasks"][number][] = [];
    await Promise.all(
      tasks.map(async (task) => {
        const verdict = this.#options.isApproved(robotId) ? await this.#decide(robotId, task.taskUid, task.attempt) : "refuse";
        if (verdict === "grant") granted.push(task);
        else if (verdict === "refuse") refused.push(task);
      }),
    );
    return { nonce, granted, refused };
  }

  /** Handles that a robot is out of contact: lowers the recorded times of its leases, so that its tasks can move earlier. */
  async robotLost(robotId: string): Promise<void> {
    const leases = [...(this.#granted.get(robotId) ?? [])];
    this.#granted.delete(robotId);
    for (const [uid, lease] of leases) {
      await this.#options.writes.update(uid, lease.attempt, (task): { readonly status?: TaskStatus } => {
        const stored = task?.status?.lease;
        // If another bridge has recorded a time, this one does not know what that bridge has granted.
        if (task === undefined || stored?.attempt !== lease.attempt || stored.grantsUntil !== lease.grantsUntil) return {};
        return {
          status: { ...ownedStatus(task), lease: { ...stored, grantsUntil: new Date(lease.grantedAtMs).toISOString() } },
        };
      });
    }
  }

  async #decide(robotId: string, uid: string, attempt: number): Promise<"grant" | "refuse" | "undecided"> {
    const { writes, clock, log } = this.#options;
    const decide = (task: DeepReadonly<Task> | undefined): LeaseDecision & { readonly status?: TaskStatus } => {
      const decision = decideLease(task, { robotId, attempt }, clock.now());
      if (decision.kind !== "raise" || task === undefined) return decision;
      return { ...decision, status: { ...ownedStatus(task), lease: decision.lease } };
    };
    try {
      const { decision, task, isWritten } = await writes.update(uid, attempt, decide);
      if (decision.kind === "refuse") {
        log.debug({ robot: robotId, task: uid, attempt }, `lease refused: ${decision.reason}`);
        return "refuse";
      }
      return this.#record(robotId, uid, { attempt, grantsUntil: task?.status?.lease?.grantsUntil, isWritten });
    } catch (error) {
      log.warn({ robot: robotId, task: uid, error: String(error) }, "could not record a lease; the robot asks again");
      // The recorded time may still permit a renewal, for example while the API server restarts.
      const known = this.#granted.get(robotId)?.get(uid);
      if (known?.attempt !== attempt || Date.parse(known.grantsUntil) <= clock.now()) return "undecided";
      return this.#record(robotId, uid, { attempt, grantsUntil: known.grantsUntil, isWritten: true });
    }
  }

  #record(
    robotId: string,
    uid: string,
    { attempt, grantsUntil, isWritten }: { attempt: number; grantsUntil: string | undefined; isWritten: boolean },
  ): "grant" {
    const known = this.#granted.get(robotId) ?? new Map<string, GrantedLease>();
    this.#granted.set(robotId, known);
    const before = known.get(uid);
    if (grantsUntil !== undefined && (isWritten || before?.grantsUntil === grantsUntil)) {
      known.set(uid, { attempt, grantsUntil, grantedAtMs: this.#options.clock.now() });
    } else {
      // Recorded by another bridge, so this one cannot tell when the lease was last granted.
      known.delete(uid);
    }
    return "grant";
  }
}
