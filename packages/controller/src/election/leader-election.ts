import { type DeepReadonly, isAlreadyExists, isConflict, isNotFound } from "@keelson/api-machinery";
import { Lease, type LeaseObject } from "@keelson/api-machinery/kinds";
import { type Clock, formatMicroTime, sleep } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import type { Logger } from "../logging/logger.ts";
import { linuxProcesses, type ProcessInspector } from "./holder-process.ts";
import { ObservedLease } from "./observed-lease.ts";
import { requestWithin } from "./request-within.ts";

/** Options of {@link LeaderElection}. */
export interface LeaderElectionOptions {
  /** Should not be shared with a busy client: renewals must not queue behind other requests. */
  readonly client: Client;
  readonly namespace: string;
  readonly name: string;
  /** Default: the host name and a random suffix. */
  readonly identity?: string | undefined;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  /** How long others wait after the last renewal that they saw. Written to the lease. Default 15000. */
  readonly leaseDurationMs?: number;
  /** How long the leader retries a renewal before it gives up. Default 10000. */
  readonly renewDeadlineMs?: number;
  /** Time between two renewals. A standby looks at the lease as often, with up to half of it as jitter. Default 2000. */
  readonly retryPeriodMs?: number;
  /**
   * A leader whose timers fire later than this gives up: its event loop is blocked for so long that a write which passed the check
   * could be sent after the lease has expired. Default: lease duration minus renew deadline, 5000.
   */
  readonly maxLagMs?: number;
  /** Called when a renewal had to read the lease first. */
  readonly onSlowPath?: () => void;
  /** Called while waiting for the lease: after the first failed attempt, and when its holder changes. */
  readonly onStandby?: (holder: string | undefined) => void;
  /** Finds out whether the holder has exited. Default: {@link linuxProcesses}. */
  readonly processes?: ProcessInspector;
}

/** The lease was lost: another process may lead now. */
export class LeaseLostError extends Error {
  override readonly name = "LeaseLostError";
  readonly code = "LeaseLost";
}

/**
 * Leader election on a Lease, compatible with client-go.
 *
 * A standby takes the lease when it expires, and a process that is restarted on the same machine takes it 500 ms after it found that
 * the holder has exited: the leader writes to the lease which process it is (see {@link ProcessInspector}). A restarted process that calls
 * {@link observe} while it starts has spent this time before it calls {@link acquire}.
 *
 * **Guarantees**: {@link isLeader} is false once the renew deadline has passed since the last renewal was *sent*, by the
 * monotonic clock and by the wall clock, even if the process was stopped or its event loop was blocked. Both are needed: a monotonic clock
 * may stand still while the machine sleeps, and a wall clock may be set. {@link hold} also gives up if timers fire so late that a
 * permitted write could be sent too late.
 */
export class LeaderElection {
  readonly #options: LeaderElectionOptions;
  readonly #leaseDurationMs: number;
  readonly #renewDeadlineMs: number;
  readonly #retryPeriodMs: number;
  readonly #maxLagMs: number;
  readonly #identity: string;
  readonly #observed: ObservedLease;
  #renewed: { readonly monotonic: number; readonly wall: number } | undefined;

  constructor(options: LeaderElectionOptions) {
    this.#options = options;
    this.#leaseDurationMs = options.leaseDurationMs ?? 15_000;
    this.#renewDeadlineMs = options.renewDeadlineMs ?? 10_000;
    this.#retryPeriodMs = options.retryPeriodMs ?? 2_000;
    this.#maxLagMs = options.maxLagMs ?? this.#leaseDurationMs - this.#renewDeadlineMs;
    this.#observed = new ObservedLease({
      clock: options.clock,
      processes: options.processes ?? linuxProcesses,
      leaseDurationMs: this.#leaseDurationMs,
    });
    this.#identity = options.identity ?? `${hostname()}_${randomUUID()}`;
    if (this.#leaseDurationMs <= this.#renewDeadlineMs)
      throw new RangeError("leaseDurationMs must be greater than renewDeadlineMs");
    if (this.#renewDeadlineMs <= this.#retryPeriodMs * minDeadlineFactor) {
      throw new RangeError(`renewDeadlineMs must be greater than ${minDeadlineFactor} times retryPeriodMs`);
    }
  }

  /** This process's `holderIdentity`. */
  get identity(): string {
    return this.#identity;
  }

  /** Whether this process may act as the leader now. */
  get isLeader(): boolean {
    if (this.#renewed === undefined) return false;
    const { clock } = this.#options;
    const elapsed = Math.max(clock.monotonic() - this.#renewed.monotonic, clock.now() - this.#renewed.wall);
    return elapsed < this.#renewDeadlineMs;
  }

  /**
   * Reads the lease, so that the wait for an exited holder's last writes starts now. Never rejects: {@link acquire} reads it again.
   */
  async observe(signal: AbortSignal): Promise<void> {
    try {
      const lease = await this.#timely((timely) => this.#read(timely), signal);
      if (lease !== undefined) this.#observed.observe(lease);
      this.#observed.takeoverInMs();
    } catch (error) {
      this.#options.log.debug(
        { err: error, lease: this.#what },
        "could not read the lease; retrying once the caches are synced",
      );
    }
  }

  /** Waits until this process holds the lease. */
  async acquire(signal: AbortSignal): Promise<void> {
    const { clock, onStandby } = this.#options;
    let reported: { readonly holder: string | undefined } | undefined;
    for (;;) {
      signal.throwIfAborted();
      if (await this.#tryAcquireOrRenew(signal)) return;
      signal.throwIfAborted();
      const holder = this.#observed.holder;
      if (reported === undefined || reported.holder !== holder) onStandby?.(holder);
      reported = { holder };
      await sleep(clock, this.#standbyDelayMs(), signal);
    }
  }

  /** Renews the lease until the signal is aborted (then returns) or the lease is lost (then throws {@link LeaseLostError}). */
  async hold(signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    let lastAt = clock.monotonic();
    while (!signal.aborted) {
      const sleptAt = clock.monotonic();
      await sleep(clock, this.#retryPeriodMs, signal).catch(() => {});
      if (signal.aborted) return;
      const lag = clock.monotonic() - sleptAt - this.#retryPeriodMs;
      if (lag >= this.#maxLagMs) {
        this.#renewed = undefined;
        throw new LeaseLostError(
          `lease ${this.#what}: the event loop was blocked for ${(lag / 1000).toFixed(1)} s, too long to send writes in time`,
        );
      }
      const left = lastAt + this.#renewDeadlineMs - clock.monotonic();
      if (left > 0 && (await this.#tryAcquireOrRenew(signal, left))) {
        lastAt = clock.monotonic();
        continue;
      }
      if (signal.aborted) return;
      const holder = this.#observed.holder;
      if (holder !== undefined && holder !== this.#identity) {
        this.#renewed = undefined;
        throw new LeaseLostError(`lease ${this.#what} is now held by ${holder}`);
      }
      if (clock.monotonic() - lastAt >= this.#renewDeadlineMs) {
        this.#renewed = undefined;
        throw new LeaseLostError(`lease ${this.#what} was not renewed within ${this.#renewDeadlineMs / 1000} s`);
      }
    }
  }

  /** Releases the lease, so that another process may lead immediately. Call it only when nothing acts as the leader any more. */
  async release(): Promise<void> {
    const lease = this.#observed.lease;
    if (this.#renewed === undefined || lease?.spec?.holderIdentity !== this.#identity) return;
    this.#renewed = undefined;
    const { client, clock, log } = this.#options;
    const now = formatMicroTime(clock.now());
    const spec = { ...lease.spec, holderIdentity: "", leaseDurationSeconds: 1, acquireTime: now, renewTime: now };
    try {
      await this.#timely((signal) => client.update(Lease, { ...lease, spec }, { signal }));
    } catch (error) {
      log.warn({ err: error, lease: this.#what }, "could not release the lease; it will expire");
    }
  }

  get #what(): string {
    return `${this.#options.namespace}/${this.#options.name}`;
  }

  async #tryAcquireOrRenew(signal: AbortSignal, withinMs?: number): Promise<boolean> {
    const { clock, log } = this.#options;
    // Taken before the request is sent: others see the renewal when it arrives, never before.
    const sent = { monotonic: clock.monotonic(), wall: clock.now() };
    try {
      const done = await this.#timely((timely) => this.#attempt(timely), signal, withinMs);
      if (done) this.#renewed = sent;
      return done;
    } catch (error) {
      if (!signal.aborted) log.warn({ err: error, lease: this.#what }, "could not acquire or renew the lease");
      return false;
    }
  }

  async #attempt(signal: AbortSignal): Promise<boolean> {
    const { client, onSlowPath } = this.#options;
    const known = this.#observed.lease;
    if (known?.spec?.holderIdentity === this.#identity && this.isLeader) {
      try {
        this.#observed.observe(await client.update(Lease, this.#claim(known), { signal }));
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
        const metadata = { namespace, name, annotations: this.#observed.annotations(this.#identity) };
        this.#observed.observe(await client.create(Lease, { metadata, spec: this.#newSpec() }, { signal }));
        return true;
      } catch (error) {
        if (isAlreadyExists(error)) return false;
        throw error;
      }
    }
    this.#observed.observe(current);
    const holder = current.spec?.holderIdentity ?? "";
    if (holder !== "" && holder !== this.#identity && this.#observed.takeoverInMs() > 0) return false;
    try {
      this.#observed.observe(await client.update(Lease, this.#claim(current), { signal }));
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

  /** How long a standby waits before it looks at the lease again: until it may take it, but not much longer than the retry period. */
  #standbyDelayMs(): number {
    const { random } = this.#options;
    const pollMs = this.#retryPeriodMs * (1 + random() * pollJitter);
    const takeoverMs = this.#observed.takeoverInMs();
    // Only processes of the same machine find that the holder has exited, so there is no crowd to spread.
    const jitterMs = this.#observed.hasHolderExited ? 0 : random() * maxTakeoverJitterMs;
    // If the lease could have been taken and was not, another standby was faster or the server failed.
    return takeoverMs > 0 ? Math.min(pollMs, takeoverMs + jitterMs) : pollMs;
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
    const annotations = { ...lease.metadata.annotations, ...this.#observed.annotations(this.#identity) };
    const isOurs = lease.spec?.holderIdentity === this.#identity;
    const transitions = lease.spec?.leaseTransitions ?? 0;
    const acquireTime = isOurs ? lease.spec?.acquireTime : undefined;
    return {
      ...lease,
      metadata: { ...lease.metadata, annotations },
      spec: {
        ...lease.spec,
        ...fresh,
        ...(acquireTime === undefined ? {} : { acquireTime }),
        leaseTransitions: isOurs ? transitions : transitions + 1,
      },
    };
  }

  /** Runs `request` with a signal that is aborted after half the renew deadline, or after `withinMs` if that is less. */
  #timely<T>(request: (signal: AbortSignal) => Promise<T>, outer?: AbortSignal, withinMs?: number): Promise<T> {
    const limitMs = Math.min(Math.max(1_000, this.#renewDeadlineMs / 2), withinMs ?? Number.POSITIVE_INFINITY);
    return requestWithin(limitMs, request, { clock: this.#options.clock, signal: outer });
  }
}

/** As in client-go, which retries with this jitter: the deadline must leave time for at least one retry. */
const minDeadlineFactor = 1.2;

/** A standby's polls are delayed by up to this share of the retry period. */
const pollJitter = 0.5;

/** Spreads the attempts of several standbys to take an expired lease. */
const maxTakeoverJitterMs = 500;
