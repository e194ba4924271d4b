import type { Clock, Timer } from "@keelson/api-machinery/time";
import { ArrivalSchedule } from "./arrival-schedule.ts";
import { durationOf, levelAt, type LoadPlan } from "./load-plan.ts";
import type { LoadRecorder } from "./load-recorder.ts";
import { causeOf, type Outcome, type Requester, type SentRequest } from "./requester.ts";

/** How often the number of users is adjusted. */
const userTickMs = 100;
/** Minimum pause of a user after a request without a response, so that an unreachable target is not a busy loop. */
const minErrorPauseMs = 100;
/** Waits below this are rounding errors of the schedule. */
const minWaitMs = 1e-6;
/** Maximum groups of requests that are recorded as not sent. */
const maxNotSentGroups = 10_000;

/** What a {@link LoadRun} runs with. */
export interface LoadRunOptions {
  readonly plan: LoadPlan;
  readonly requester: Requester;
  readonly recorder: LoadRecorder;
  readonly clock: Clock;
}

interface InFlight {
  /** From when the latency counts. */
  readonly dueMs: number;
  readonly deadlineMs: number;
  readonly user: boolean;
  sent: SentRequest | undefined;
}

/**
 * The load of one worker.
 *
 * **Open model**: request `n` is due at a time of the schedule, whatever the target does. Its latency counts from then, even if it had to
 * wait for a connection (no coordinated omission). The backlog is a number, not a list, so memory does not grow. Requests that are due
 * and still wait when the stages are over get `timeoutMs` more; then they count as not sent.
 *
 * **Closed model**: each user sends a request, waits for the response, pauses, and repeats. Users may share fewer connections; the
 * latency includes the wait for one.
 */
export class LoadRun {
  readonly #plan: LoadPlan;
  readonly #requester: Requester;
  readonly #recorder: LoadRecorder;
  readonly #clock: Clock;
  readonly #schedule: ArrivalSchedule;
  readonly #endMs: number;
  readonly #inFlight = new Set<InFlight>();
  readonly #timers = new Map<"next" | "timeout" | "drain", Timer>();
  readonly #pauses = new Set<Timer>();
  #startMs = 0;
  #next: number;
  #users = 0;
  #isStopped = false;
  #isPumping = false;
  #finish: (() => void) | undefined;

  constructor({ plan, requester, recorder, clock }: LoadRunOptions) {
    this.#plan = plan;
    this.#requester = requester;
    this.#recorder = recorder;
    this.#clock = clock;
    this.#schedule = new ArrivalSchedule(plan.model === "open" ? plan.stages : []);
    this.#endMs = durationOf(plan);
    // Worker i of w sends every w-th request, so that all workers together send exactly the schedule.
    this.#next = plan.worker;
  }

  /** Milliseconds since the start. */
  get elapsedMs(): number {
    return this.#clock.monotonic() - this.#startMs;
  }

  /** Requests under way. */
  get inFlight(): number {
    return this.#inFlight.size;
  }

  /** Runs the plan. Resolves when every request has ended. */
  run(): Promise<void> {
    return new Promise((resolve) => {
      this.#startMs = this.#clock.monotonic();
      this.#finish = resolve;
      this.#pump();
    });
  }

  /** Sends no further request, and gives up those under way. */
  stop(): void {
    this.#isStopped = true;
    for (const one of [...this.#inFlight]) this.#giveUp(one, "Stopped");
    this.#pump();
  }

  #pump(): void {
    // A requester that reports the end of a request while it is sent must not recurse.
    if (this.#isPumping || this.#finish === undefined) return;
    this.#isPumping = true;
    if (this.#plan.model === "open") this.#pumpOpen();
    else this.#pumpClosed();
    this.#isPumping = false;
    this.#armTimeout();
    if (this.#isDone()) this.#end();
  }

  #pumpOpen(): void {
    const { total } = this.#schedule;
    while (!this.#isStopped && this.#next < total && this.#inFlight.size < this.#requester.capacity) {
      const due = this.#schedule.timeOf(this.#next);
      const wait = due - this.elapsedMs;
      if (wait > minWaitMs) {
        this.#arm("next", wait);
        return;
      }
      this.#next += this.#plan.workers;
      this.#send(due, false);
    }
    if (this.#next >= total) {
      // The load ends with its last stage, even if no request is left.
      if (this.elapsedMs < this.#endMs) this.#arm("next", this.#endMs - this.elapsedMs);
    } else if (!this.#isStopped && !this.#timers.has("drain")) {
      const left = Math.max(this.#endMs + this.#plan.timeoutMs - this.elapsedMs, 0);
      this.#timers.set(
        "drain",
        this.#clock.setTimer(left, () => this.#dropBacklog()),
      );
    }
  }

  /** Counts the requests that could not be sent in time. */
  #dropBacklog(): void {
    const { workers } = this.#plan;
    const left = Math.ceil((this.#schedule.total - this.#next) / workers);
    const group = Math.max(Math.ceil(left / maxNotSentGroups), 1);
    for (let index = 0; index < left; index += group) {
      const late = this.elapsedMs - this.#schedule.timeOf(this.#next + index * workers);
      this.#recorder.notSent(late, Math.min(group, left - index));
    }
    this.#next = this.#schedule.total;
    this.#pump();
  }

  #pumpClosed(): void {
    const { worker, workers } = this.#plan;
    if (this.#isStopped || this.elapsedMs >= this.#endMs) {
      this.#users -= this.#pauses.size;
      for (const pause of this.#pauses) pause.cancel();
      this.#pauses.clear();
      return;
    }
    const wanted = Math.ceil((Math.round(levelAt(this.#plan, this.elapsedMs)) - worker) / workers);
    // The requester queues requests that find all connections busy, so that there are as many users as planned.
    while (this.#users < wanted) {
      this.#users++;
      this.#send(this.elapsedMs, true);
    }
    this.#arm("next", Math.min(userTickMs, this.#endMs - this.elapsedMs));
  }

  /** The user of an ended request repeats, or leaves if there are too many. */
  #repeat(isResponse: boolean): void {
    const { worker, workers, thinkTimeMs } = this.#plan;
    const again = (): void => {
      const wanted = Math.ceil((Math.round(levelAt(this.#plan, this.elapsedMs)) - worker) / workers);
      if (this.#isStopped || this.elapsedMs >= this.#endMs || this.#users > wanted) this.#users--;
      else this.#send(this.elapsedMs, true);
      this.#pump();
    };
    const pause = isResponse ? thinkTimeMs : Math.max(thinkTimeMs, minErrorPauseMs);
    // A pause after the last stage would only prolong the load.
    if (pause === 0 || this.#isStopped || this.elapsedMs >= this.#endMs) {
      again();
      return;
    }
    const timer = this.#clock.setTimer(pause, () => {
      this.#pauses.delete(timer);
      again();
    });
    this.#pauses.add(timer);
  }

  #send(dueMs: number, user: boolean): void {
    const one: InFlight = { dueMs, deadlineMs: this.elapsedMs + this.#plan.timeoutMs, user, sent: undefined };
    this.#inFlight.add(one);
    try {
      one.sent = this.#requester.send((outcome) => this.#ended(one, outcome));
    } catch (error) {
      const outcome = { error: causeOf(toError(error)), bytes: 0, isExpected: false };
      this.#clock.setTimer(0, () => this.#ended(one, outcome));
    }
  }

  #ended(one: InFlight, outcome: Outcome): void {
    if (!this.#inFlight.delete(one)) return;
    this.#recorder.record(this.elapsedMs, this.elapsedMs - one.dueMs, outcome);
    if (one.user) this.#repeat(outcome.status !== undefined);
    else this.#pump();
  }

  #giveUp(one: InFlight, error: string): void {
    this.#ended(one, { error, bytes: 0, isExpected: false });
    one.sent?.abort();
  }

  /** All requests have the same timeout, so the oldest one is the first in the set. */
  #armTimeout(): void {
    const [oldest] = this.#inFlight;
    if (oldest === undefined || this.#timers.has("timeout")) return;
    const check = (): void => {
      this.#timers.delete("timeout");
      for (const one of this.#inFlight) {
        if (one.deadlineMs > this.elapsedMs) break;
        this.#giveUp(one, "Timeout");
      }
      this.#pump();
    };
    this.#timers.set("timeout", this.#clock.setTimer(Math.max(oldest.deadlineMs - this.elapsedMs, 0), check));
  }

  #arm(name: "next", delayMs: number): void {
    this.#timers.get(name)?.cancel();
    this.#timers.set(
      name,
      this.#clock.setTimer(delayMs, () => this.#pump()),
    );
  }

  #isDone(): boolean {
    if (this.#inFlight.size > 0) return false;
    if (this.#isStopped) return true;
    return this.#plan.model === "open"
      ? this.#next >= this.#schedule.total && this.elapsedMs >= this.#endMs
      : this.elapsedMs >= this.#endMs && this.#users === 0;
  }

  #end(): void {
    for (const timer of [...this.#timers.values(), ...this.#pauses]) timer.cancel();
    this.#timers.clear();
    this.#pauses.clear();
    const finish = this.#finish;
    this.#finish = undefined;
    finish?.();
  }
}

const toError = (error: unknown): Error => (error instanceof Error ? error : new Error(String(error)));
