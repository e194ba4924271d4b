import { type DeepReadonly, isAlreadyExists, isConflict, isNotFound } from "@keelson/api-machinery";
import { Lease, type LeaseObject } from "@keelson/api-machinery/kinds";
import { type Clock, formatMicroTime, sleep } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import type { Logger } from "../logging/logger.ts";

/** Options of {@link LeaderElection}. */
export interface LeaderElectionOptions {
  /** A client of its own, so that nothing can keep renewals waiting. */
  readonly client: Client;
  readonly namespace: string;
  readonly name: string;
  /** Default: the host's name and a random part. */
  readonly identity?: string | undefined;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  /** How long others wait after the last renewal that they saw; it is in the lease. Default 15000. */
  readonly leaseDurationMs?: number;
  /** How long the leader tries to renew before it gives up. Default 10000. */
  readonly renewDeadlineMs?: number;
  /** Default 2000. */
  readonly retryPeriodMs?: number;
  /**
   * A process whose timers come this much too late gives up: its loop is blocked for so long at a time that a write which was
   * allowed could leave it after the lease has run out. Default: lease duration less renew deadline, 5000.
   */
  readonly longestLagMs?: number;
  /** Called when a renewal had to read the lease first. */
  readonly onSlowPath?: () => void;
  /** Called while the lease is waited for: at the first try that did not get it, and when its holder changes. */
  readonly onStandby?: (holder: string | undefined) => void;
}

/** The lease was lost: somebody else may lead now. */
export class LeaseLostError extends Error {
  override readonly name = "LeaseLostError";
  readonly code = "LeaseLost";
}

/**
 * Leader election on a Lease, as client-go does it.
 *
 * **Guarantees**: {@link isLeader} is false once the renew deadline has passed since the last renewal was *sent*, by the
 * monotonic clock and by the wall clock, even if this process was stopped or its loop blocked meanwhile. A monotonic clock
 * stands still while a machine sleeps, a wall clock may be set; only together do they tell. {@link hold} gives up as well when
 * timers come so late that what was allowed at one moment may be done too late.
 */
export class LeaderElection {
  readonly #options: LeaderElectionOptions;
  readonly #leaseDurationMs: number;
  readonly #renewDeadlineMs: number;
  readonly #retryPeriodMs: number;
  readonly #longestLagMs: number;
  readonly #identity: string;
  /** The lease as last seen, and when that state of it was seen first. */
  #observed: { readonly lease: DeepReadonly<LeaseObject>; readonly at: number } | undefined;
  #renewed: { readonly monotonic: number; readonly wall: number } | undefined;

  constructor(options: LeaderElectionOptions) {
    this.#options = options;
    this.#leaseDurationMs = options.leaseDurationMs ?? 15_000;
    this.#renewDeadlineMs = options.renewDeadlineMs ?? 10_000;
    this.#retryPeriodMs = options.retryPeriodMs ?? 2_000;
    this.#longestLagMs = options.longestLagMs ?? this.#leaseDurationMs - this.#renewDeadlineMs;
    this.#identity = options.identity ?? `${hostname()}_${randomUUID()}`;
    if (this.#leaseDurationMs <= this.#renewDeadlineMs)
      throw new RangeError("leaseDurationMs has to be longer than renewDeadlineMs");
    if (this.#renewDeadlineMs <= this.#retryPeriodMs * jitterFactor) {
      throw new RangeError(`renewDeadlineMs has to be longer than ${jitterFactor} times retryPeriodMs`);
    }
  }

  /** Who this process is in the lease. */
  get identity(): string {
    return this.#identity;
  }

  /** Whether this process may act as the leader at this moment. */
  get isLeader(): boolean {
    if (this.#renewed === undefined) return false;
    const { clock } = this.#options;
    const elapsed = Math.max(clock.monotonic() - this.#renewed.monotonic, clock.now() - this.#renewed.wall);
    return elapsed < this.#renewDeadlineMs;
  }

  /** Waits until the lease is this process's. */
  async acquire(signal: AbortSignal): Promise<void> {
    const { clock, random, onStandby } = this.#options;
    let told: { readonly holder: string | undefined } | undefined;
    for (;;) {
      signal.throwIfAborted();
      if (await this.#tryAcquireOrRenew(signal)) return;
      signal.throwIfAborted();
      const holder = this.#observed?.lease.spec?.holderIdentity || undefined;
      if (told === undefined || told.holder !== holder) onStandby?.(holder);
      told = { holder };
      await sleep(clock, this.#retryPeriodMs * (1 + random() * jitterFactor), signal);
    }
  }

  /** Renews the lease until the signal fires (then returns) or it is lost (then throws {@link LeaseLostError}). */
  async hold(signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    let lastAt = clock.monotonic();
    while (!signal.aborted) {
      const sleptAt = clock.monotonic();
      await sleep(clock, this.#retryPeriodMs, signal).catch(() => {});
      if (signal.aborted) return;
      const lag = clock.monotonic() - sleptAt - this.#retryPeriodMs;
      if (lag >= this.#longestLagMs) {
        this.#renewed = undefined;
        throw new LeaseLostError(
          `lease ${this.#what}: the event loop was blocked for ${(lag / 1000).toFixed(1)} s, so no write can be trusted to leave in time`,
        );
      }
      const left = lastAt + this.#renewDeadlineMs - clock.monotonic();
      if (left > 0 && (await this.#tryAcquireOrRenew(signal, left))) {
        lastAt = clock.monotonic();
        continue;
      }
      if (signal.aborted) return;
      const holder = this.#observed?.lease.spec?.holderIdentity;
      if (holder !== undefined && holder !== "" && holder !== this.#identity) {
        this.#renewed = undefined;
        throw new LeaseLostError(`lease ${this.#what}: ${holder} holds it now`);
      }
      if (clock.monotonic() - lastAt >= this.#renewDeadlineMs) {
        this.#renewed = undefined;
        throw new LeaseLostError(`lease ${this.#what} was not renewed within ${this.#renewDeadlineMs / 1000} s`);
      }
    }
  }

  /** Gives the lease back, so that another may lead at once. Only when nothing acts as the leader any more. */
  async release(): Promise<void> {
    const lease = this.#observed?.lease;
    if (this.#renewed === undefined || lease?.spec?.holderIdentity !== this.#identity) return;
    this.#renewed = undefined;
    const { client, clock, log } = this.#options;
    const now = formatMicroTime(clock.now());
    const spec = { ...lease.spec, holderIdentity: "", leaseDurationSeconds: 1, acquireTime: now, renewTime: now };
    try {
      await this.#timely((signal) => client.update(Lease, { ...lease, spec }, { signal }));
    } catch (error) {
      log.warn({ err: error, lease: this.#what }, "the lease could not be given back; it runs out by itself");
    }
  }

  get #what(): string {
    return `${this.#options.namespace}/${this.#options.name}`;
  }

  async #tryAcquireOrRenew(signal: AbortSignal, withinMs?: number): Promise<boolean> {
    const { clock, log } = this.#options;
    // Taken before the request is sent: the server's clock for others starts when it arrives, never before.
    const sent = { monotonic: clock.monotonic(), wall: clock.now() };
    try {
      const done = await this.#timely((timely) => this.#attempt(timely), signal, withinMs);
      if (done) this.#renewed = sent;
      return done;
    } catch (error) {
      if (!signal.aborted) log.warn({ err: error, lease: this.#what }, "the lease could not be acquired or renewed");
      return false;
    }
  }

  async #attempt(signal: AbortSignal): Promise<boolean> {
    const { client, onSlowPath } = this.#options;
    const known = this.#observed?.lease;
    if (known?.spec?.holderIdentity === this.#identity && this.isLeader) {
      try {
        this.#observe(await client.update(Lease, this.#claim(known), { signal }));
        return true;
      } catch (error) {
        if (!isConflict(error) && !isNotFound(error)) throw error;
        onSlowPath?.();
      }
    }
    const current = await this.#read(signal);
    if (current === undefined) {
      const { namespace, name } = this.#options;
      try {
        this.#observe(await client.create(Lease, { metadata: { namespace, name }, spec: this.#newSpec() }, { signal }));
        return true;
      } catch (error) {
        if (isAlreadyExists(error)) return false;
        throw error;
      }
    }
    this.#observe(current);
    const holder = current.spec?.holderIdentity ?? "";
    if (holder !== "" && holder !== this.#identity && !this.#hasRunOut()) return false;
    try {
      this.#observe(await client.update(Lease, this.#claim(current), { signal }));
      return true;
    } catch (error) {
      if (isConflict(error)) return false;
      throw error;
    }
  }

  async #read(signal: AbortSignal): Promise<DeepReadonly<LeaseObject> | undefined> {
    const { client, namespace, name } = this.#options;
    try {
      return await client.get(Lease, { namespace, name }, { signal });
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }

  /** Others' clocks are not believed: what counts is how long the same state of the lease has been seen here. */
  #observe(lease: DeepReadonly<LeaseObject>): void {
    if (this.#observed !== undefined && this.#observed.lease.metadata.resourceVersion === lease.metadata.resourceVersion)
      return;
    this.#observed = { lease, at: this.#options.clock.monotonic() };
  }

  #hasRunOut(): boolean {
    if (this.#observed === undefined) return false;
    const { lease, at } = this.#observed;
    // The holder's own: it may have been told another than this process.
    const seconds = lease.spec?.leaseDurationSeconds ?? 0;
    const durationMs = seconds > 0 ? seconds * 1000 : this.#leaseDurationMs;
    return this.#options.clock.monotonic() - at >= durationMs;
  }

  #newSpec(): NonNullable<LeaseObject["spec"]> {
    const now = formatMicroTime(this.#options.clock.now());
    return {
      holderIdentity: this.#identity,
      leaseDurationSeconds: Math.round(this.#leaseDurationMs / 1000),
      acquireTime: now,
      renewTime: now,
      leaseTransitions: 0,
    };
  }

  #claim(lease: DeepReadonly<LeaseObject>): DeepReadonly<LeaseObject> {
    const fresh = this.#newSpec();
    const isOurs = lease.spec?.holderIdentity === this.#identity;
    const transitions = lease.spec?.leaseTransitions ?? 0;
    const acquireTime = isOurs ? lease.spec?.acquireTime : undefined;
    return {
      ...lease,
      spec: {
        ...lease.spec,
        ...fresh,
        ...(acquireTime === undefined ? {} : { acquireTime }),
        leaseTransitions: isOurs ? transitions : transitions + 1,
      },
    };
  }

  /** Runs `request` with a signal that fires after half the renew deadline, or `withinMs` where that is less. */
  async #timely<T>(request: (signal: AbortSignal) => Promise<T>, outer?: AbortSignal, withinMs?: number): Promise<T> {
    const controller = new AbortController();
    const limit = Math.min(Math.max(1_000, this.#renewDeadlineMs / 2), withinMs ?? Number.POSITIVE_INFINITY);
    const onAbort = (): void => controller.abort(outer?.reason);
    const timedOut = new Promise<never>((_, reject) => {
      controller.signal.addEventListener("abort", () => reject(controller.signal.reason), { once: true });
    });
    const timer = this.#options.clock.setTimer(limit, () => controller.abort(new Error(`no answer within ${limit} ms`)));
    if (outer?.aborted) onAbort();
    outer?.addEventListener("abort", onAbort, { once: true });
    try {
      return await Promise.race([request(controller.signal), timedOut]);
    } finally {
      timer.cancel();
      outer?.removeEventListener("abort", onAbort);
    }
  }
}

/** The share of the retry period by which tries to acquire are spread. */
const jitterFactor = 1.2;
