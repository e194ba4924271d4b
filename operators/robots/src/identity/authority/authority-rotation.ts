import { isConflict } from "@keelson/api-machinery";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { EventRecorder, Logger } from "@keelson/controller";
import { Informer } from "@keelson/controller/informer";
import { identitySecret } from "../../api/names.ts";
import { Secret } from "../../api/secret.ts";
import { changeRobotAuthority } from "./authority-store.ts";
import { afterStep, brokerStep, nextRotationStep, type RotationStep } from "./authority-state.ts";
import type { LazyAuthority } from "./lazy-authority.ts";
import type { RobotAuthority } from "./robot-authority.ts";

/** An external broker is asked again after this time, and a failed step is repeated. */
const retryMs = 30_000;

/** Time between two looks at whether the authority expires soon, or is no longer needed. */
const checkMs = 86_400_000;

/** What the broker was seen to do. */
export interface BrokerTrust {
  /** Whether it admits clients with a certificate of the newest authority. */
  readonly acceptsNewest: boolean;
  /** Whether its own certificate is of the authority that issues certificates. */
  readonly presentsCurrent: boolean;
}

/** Options of {@link AuthorityRotation}. */
export interface AuthorityRotationOptions {
  readonly client: Client;
  readonly namespace: string;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  readonly events: EventRecorder;
  readonly authority: LazyAuthority;
  /** Has the broker and the robots trust what the state says. Called with the first state, and with every other one. */
  readonly apply: (authority: RobotAuthority) => Promise<void>;
  /** Asks the broker. */
  readonly probe: (authority: RobotAuthority) => Promise<BrokerTrust>;
  /** Whether a robot or a join token needs the previous authority. */
  readonly isPreviousNeeded: (authority: RobotAuthority) => Promise<boolean>;
}

/**
 * Replaces the robots' certificate authority as {@link AuthorityState} says. Users request a rotation and the retirement of the old authority by writing the
 * state; this takes the steps in between, when the broker is ready for them, and all steps for an authority that expires. Each step is one write, so an operator that crashes anywhere continues.
 */
export class AuthorityRotation {
  readonly #options: AuthorityRotationOptions;
  readonly #stopped = new AbortController();
  #applied: RobotAuthority | undefined;
  #timer: Timer | undefined;
  #running: Promise<void> = Promise.resolve();
  #isDue = false;
  readonly #informer: Promise<void>;

  constructor(options: AuthorityRotationOptions) {
    this.#options = options;
    const informer = new Informer({
      ...options,
      type: Secret,
      selection: { fieldSelector: `metadata.name=${identitySecret}` },
      onEffect: () => this.#wake(),
    });
    this.#informer = informer.run(this.#stopped.signal);
  }

  /** Asks the broker again, for example because it was restarted. */
  brokerChanged(): void {
    if (this.#applied !== undefined && brokerStep(this.#applied.state) !== undefined) this.#wake();
  }

  /** Looks again at whether the previous authority is needed, because a robot trusts other ones than before. */
  robotChanged(): void {
    if (this.#applied?.state.previous !== undefined) this.#wake();
  }

  async stop(): Promise<void> {
    this.#stopped.abort();
    this.#timer?.cancel();
    await this.#informer;
    await this.#running;
  }

  /** Runs once more after the present run. */
  #wake(): void {
    if (this.#isDue || this.#stopped.signal.aborted) return;
    this.#isDue = true;
    this.#running = this.#running.then(() => {
      this.#isDue = false;
      return this.#run();
    });
  }

  async #run(): Promise<void> {
    const { clock, log } = this.#options;
    this.#timer?.cancel();
    if (this.#stopped.signal.aborted) return;
    let waitMs = retryMs;
    try {
      waitMs = await this.#advance();
    } catch (error) {
      // Another writer's change wakes this again.
      if (!isConflict(error))
        log.warn({ error: String(error) }, "could not replace the certificate authority of robots; retrying");
    }
    if (!this.#stopped.signal.aborted) this.#timer = clock.setTimer(waitMs, () => this.#wake(), { background: true });
  }

  /** Returns when to look again, if nothing happens before. */
  async #advance(): Promise<number> {
    const { client, namespace, clock, authority, apply } = this.#options;
    const current = await authority.reload();
    if (current === undefined) return checkMs;
    if (this.#applied?.state.version !== current.state.version) {
      await apply(current);
      this.#report(current);
      this.#applied = current;
    }
    const step = nextRotationStep(current.state, clock.now());
    if (step === undefined) return checkMs;
    if (!(await this.#isReady(step, current))) return step.kind === "retire" ? checkMs : retryMs;
    // The write wakes this again.
    await changeRobotAuthority({ client, namespace, fieldManager: "robots-identity", now: clock.now() }, (state) => {
      const now = clock.now();
      return nextRotationStep(state, now)?.kind === step.kind ? afterStep(state, step.kind, now) : state;
    });
    return checkMs;
  }

  async #isReady(step: RotationStep, current: RobotAuthority): Promise<boolean> {
    const { probe, isPreviousNeeded } = this.#options;
    if (step.kind === "stage") return true;
    if (step.kind === "retire") return step.isForced || !(await isPreviousNeeded(current));
    return (await probe(current))[step.broker];
  }

  /** Records an event, unless this is the first state. */
  #report({ state }: RobotAuthority): void {
    const before = this.#applied?.state;
    if (before === undefined) return;
    const { namespace, events } = this.#options;
    const regarding = { apiVersion: "v1", kind: "Secret", metadata: { name: identitySecret, namespace } };
    for (const [happened, reason, note] of [
      [
        before.next === undefined && state.next !== undefined,
        "AuthorityStaged",
        "robots learn to trust a new certificate authority",
      ],
      [
        before.authority.certificate !== state.authority.certificate,
        "AuthorityPromoted",
        "the new certificate authority issues certificates of robots",
      ],
      [
        before.isRetiring !== true && state.isRetiring === true,
        "AuthorityRetiring",
        "the new certificate authority has signed the broker's certificate",
      ],
      [
        before.previous !== undefined && state.previous === undefined,
        "AuthorityRetired",
        "the old certificate authority is no longer trusted",
      ],
    ] as const) {
      if (happened) events.event(regarding, { type: "Normal", reason, note });
    }
  }
}
