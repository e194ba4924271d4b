import type { Clock } from "@keelson/api-machinery/time";
import { KeyedRates, type RateLimit } from "../broker/keyed-rates.ts";
import type { WorkOwner } from "./keyed-queue.ts";

/** As many reports as an agent sends before the broker acknowledges one. */
const maxPendingReports = 1024;

/** Registrations and heartbeats, lease requests, answers to signals, or join requests. An agent waits for an answer before it repeats one. */
const maxPendingMessages = 16;

/** Deletions of unknown tasks that the registrations of a robot can cause: 1,024, then ten per second. */
const deletionLimit: RateLimit = { burst: 1024, perSecond: 10 };

/** Registrations of a robot that resend its dispatches immediately. The dispatcher repeats unanswered dispatches anyway. */
const resendLimit: RateLimit = { burst: 10, perSecond: 0.1 };

/** Kinds of messages that are bounded separately. An external broker may not check who publishes to a shared topic or a join topic. */
type MessageKind = "report" | "lease" | "signal" | "join" | "registration" | "sharedRegistration";

/** Whom a robot's message counts against while it waits. */
export function ownerOf(kind: MessageKind, robotId: string): WorkOwner {
  return { name: `${kind}/${robotId}`, maxPending: kind === "report" ? maxPendingReports : maxPendingMessages };
}

/** Limits what the registrations of each robot make the bridge send. */
export class RegistrationLimits {
  readonly #deletions: KeyedRates;
  readonly #resends: KeyedRates;

  constructor(clock: Clock) {
    this.#deletions = new KeyedRates(clock, deletionLimit);
    this.#resends = new KeyedRates(clock, resendLimit);
  }

  /** Counts the deletion of an unknown task. Returns false if the robot has exceeded its limit. */
  mayDelete(robotId: string): boolean {
    return this.#deletions.accept(robotId);
  }

  /** Counts an immediate resend of all dispatches. Returns false if the robot has exceeded its limit. */
  mayResend(robotId: string): boolean {
    return this.#resends.accept(robotId);
  }
}
