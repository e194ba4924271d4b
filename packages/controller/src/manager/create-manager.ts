import { setMaxListeners } from "node:events";
import type { KubernetesObject } from "@keelson/api-machinery";
import { systemClock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import { ContainedLogger } from "../logging/contained-logger.ts";
import { containedMetrics } from "../metrics/contained-metrics.ts";
import { ControllerRunner } from "../reconcile/controller-runner.ts";
import { createDeferred } from "@keelson/api-machinery/deferred";
import { createEventRecorder, type RunningEventRecorder } from "../events/event-recorder.ts";
import { InterceptedClient } from "../reconcile/intercepted-client.ts";
import { LeaderElection, LeaseLostError } from "../election/leader-election.ts";
import { type Logger, silentLogger } from "../logging/logger.ts";
import { cacheOptionsOf, concurrencyOf } from "./effective-options.ts";
import type { Leadership, Manager, ManagerOptions } from "./manager.ts";
import { ManagerStoppedError, NotLeaderError } from "./manager-errors.ts";
import { type Metrics, noMetrics } from "../metrics/metrics.ts";
import { webhookContext } from "./managed-webhooks.ts";
import type { Change, OnChange } from "../cache/change.ts";
import type { Cache } from "../cache/cache.ts";
import type { ControllerDefinition } from "../reconcile/controller-definition.ts";
import { defaultTraceLength, isSelected, type ReconcileFilter, type ReconcileRecord } from "../reconcile/reconcile-trace.ts";
import { type Source, sourcesOf } from "../reconcile/request-mapping.ts";
import { SharedCache } from "../cache/shared-cache.ts";

const cacheSyncTimeoutMs = 120_000;

/**
 * Creates a manager. Nothing runs before `startCaches` or `start`.
 *
 * **Errors**: `TypeError` if two controllers have the same name, an index is declared twice with different functions, or a maximum of concurrent
 * reconciles is invalid.
 */
export function createManager(options: ManagerOptions): Manager {
  return new RunningManager(options);
}

class RunningManager implements Manager {
  readonly cache: Cache;
  readonly onChange: OnChange;
  readonly done: Promise<void>;
  readonly #options: ManagerOptions;
  readonly #log: Logger;
  readonly #metrics: Metrics;
  readonly #cache: SharedCache;
  readonly #concurrency = new Map<string, number>();
  readonly #measured: { cache?: SharedCache | undefined } = {};
  readonly #sources = new Map<string, readonly Source[]>();
  readonly #events: RunningEventRecorder;
  readonly #election: LeaderElection | undefined;
  readonly #runners: ControllerRunner[] = [];
  readonly #settled = createDeferred<void>();
  /** Ends the campaign, or the renewals of the lease. */
  readonly #leaveElection = new AbortController();
  readonly #stopRequested = new AbortController();
  /** Cancels writes in flight when the lease is lost. */
  readonly #lost = new AbortController();
  #campaign: Promise<void> = Promise.resolve();
  /** The call of `beforeControllers`. The stop waits for it. */
  #preparing: Promise<void> | undefined;
  #caches: Promise<void> | undefined;
  #starting: Promise<void> | undefined;
  #stopping: Promise<void> | undefined;
  #failure: unknown;

  constructor(options: ManagerOptions) {
    this.#options = options;
    const { client, clock = systemClock, random = Math.random } = options;
    this.#log = options.logger === undefined ? silentLogger : new ContainedLogger(options.logger);
    this.#metrics = options.metrics === undefined ? noMetrics : containedMetrics(options.metrics, this.#log);
    this.#cache = new SharedCache({ client, clock, random, log: this.#log, cached: cacheOptionsOf(options) });
    for (const definition of options.controllers) {
      this.#concurrency.set(definition.name, concurrencyOf(definition, options));
      if (this.#sources.has(definition.name))
        throw new TypeError(`controller ${JSON.stringify(definition.name)} is defined twice`);
      const controller = definition.name;
      const onError = (what: string, { type, object }: Change<KubernetesObject>, error: unknown): void => {
        const { namespace, name } = object.metadata;
        const fields = { err: error, controller, kind: object.kind, namespace, name, change: type };
        this.#log.error(fields, `${what} failed`);
      };
      this.#sources.set(controller, sourcesOf(definition, this.#cache, onError));
    }
    for (const read of [...options.controllers.flatMap((definition) => definition.reads), ...(options.reads ?? [])]) {
      this.#cache.declare(read.type);
      for (const [name, compute] of Object.entries(read.indexes ?? {})) this.#cache.declareIndex(read.type, name, compute);
    }
    // Metrics may outlive many managers: through this reference they keep a cache only while it runs.
    const measured = this.#measured;
    measured.cache = this.#cache;
    this.#metrics.watchCache(() => measured.cache?.metrics() ?? []);
    this.#events = createEventRecorder({ client, clock, random, log: this.#log, controller: options.name });
    if (options.leaderElection !== undefined) {
      const { namespace, name, identity } = options.leaderElection;
      this.#election = new LeaderElection({
        ...{ client, namespace, name, identity, clock, random, log: this.#log },
        onSlowPath: () => this.#metrics.leaderSlowPath(name),
        onStandby: (holder) => this.#report(holder === undefined ? { kind: "standby" } : { kind: "standby", holder }),
      });
    }
    this.cache = this.#cache;
    this.onChange = this.#cache.onChange;
    this.done = this.#settled.promise;
  }

  startCaches(signal?: AbortSignal): Promise<void> {
    if (this.#stopping !== undefined) return Promise.reject(new ManagerStoppedError("the manager is stopping"));
    this.#caches ??= this.#startCaches(signal);
    return this.#caches;
  }

  /** Webhooks start first: without conversion webhooks, the first list of a converted kind fails. */
  async #startCaches(signal: AbortSignal | undefined): Promise<void> {
    const context = { clock: systemClock, random: Math.random, ...this.#options, log: this.#log };
    await this.#options.webhooks?.start(webhookContext(context, this.#metrics));
    await this.#cache.start(cacheSyncTimeoutMs, signal);
  }

  start(signal?: AbortSignal): Promise<void> {
    this.#starting ??= this.#start(signal);
    return this.#starting;
  }

  reconciles(filter: ReconcileFilter = {}): readonly ReconcileRecord[] {
    return this.#runners.flatMap((runner) => runner.records()).filter((record) => isSelected(record, filter));
  }

  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  async #start(signal: AbortSignal | undefined): Promise<void> {
    // While the caches sync, the time for the last writes of an exited holder passes.
    const observed = this.#election?.observe(this.#leaveElection.signal);
    await this.startCaches(signal);
    await observed;
    if (this.#stopping !== undefined) throw new ManagerStoppedError("the manager is stopping");
    const { client, controllers } = this.#options;
    const election = this.#election;
    if (election === undefined) {
      await this.#startControllers(controllers.map((definition) => this.#runnerOf(definition, client)));
      return;
    }
    const fenced = this.#fenced(election);
    const elected: ControllerRunner[] = [];
    for (const definition of controllers) {
      if (definition.needsLeaderElection === false) {
        this.#runnerOf(definition, client).start();
        continue;
      }
      const runner = this.#runnerOf(definition, fenced);
      if (definition.warmUp) runner.warmUp();
      elected.push(runner);
    }
    this.#campaign = this.#lead(election, elected).catch((error: unknown) => {
      this.#failure ??= error;
      this.#lost.abort(new NotLeaderError("the lease was lost while the write was in flight; it may have been stored"));
      void this.stop();
    });
  }

  async #lead(election: LeaderElection, runners: readonly ControllerRunner[]): Promise<void> {
    const name = this.#options.leaderElection?.name ?? "";
    const leave = this.#leaveElection.signal;
    this.#metrics.leading(name, false);
    try {
      await election.acquire(leave);
    } catch (error) {
      if (leave.aborted) return;
      throw error;
    }
    this.#log.info({ lease: name, identity: election.identity }, "leading");
    this.#metrics.leading(name, true);
    const held = election.hold(leave);
    held.catch(() => {});
    try {
      if (this.#stopping === undefined) await this.#startControllers(runners);
      await held;
    } finally {
      this.#metrics.leading(name, false);
    }
  }

  /** A client that writes only while this process leads. A write that has to wait is checked again when it is sent. */
  #fenced(election: LeaderElection): Client {
    // Every write in flight listens to it; that is not a leak.
    setMaxListeners(0, this.#lost.signal);
    return new InterceptedClient(this.#options.client, {
      signal: this.#lost.signal,
      beforeWrite: () => {
        if (election.isLeader) return;
        const { name = "" } = this.#options.leaderElection ?? {};
        throw new NotLeaderError(`lease ${name} is not held; the write was not sent`);
      },
    });
  }

  #runnerOf(definition: ControllerDefinition, client: Client): ControllerRunner {
    const { clock = systemClock, random = Math.random } = this.#options;
    const maxConcurrent = this.#concurrency.get(definition.name) ?? 1;
    const runner = new ControllerRunner({
      definition,
      maxConcurrent,
      sources: this.#sources.get(definition.name) ?? [],
      cache: this.#cache,
      client,
      clock,
      random,
      log: this.#log,
      events: this.#events,
      metrics: this.#metrics.controller(definition.name, maxConcurrent),
      traceLength: this.#options.traceLength ?? defaultTraceLength,
    });
    this.#runners.push(runner);
    return runner;
  }

  async #startControllers(runners: readonly ControllerRunner[]): Promise<void> {
    this.#preparing = this.#options.beforeControllers?.(this.#stopRequested.signal);
    await this.#preparing;
    if (this.#stopping !== undefined) return;
    for (const runner of runners) runner.start();
    this.#report({ kind: "leading" });
  }

  /** An error of the listener must not affect leadership. */
  #report(leadership: Leadership): void {
    try {
      this.#options.onLeadership?.(leadership);
    } catch (error) {
      this.#log.error({ err: error, leadership: leadership.kind }, "onLeadership failed");
    }
  }

  /**
   * Controllers stop first, because they need everything else. The lease is released after them, so that no other process starts before
   * they have ended. The event recorder stops last, so that it sends what the others record while they stop.
   */
  async #stop(): Promise<void> {
    this.#stopRequested.abort(new ManagerStoppedError("the manager is stopping"));
    const isDrained = await this.#stopControllers();
    try {
      await this.#preparing?.catch(() => {});
      await this.#options.afterControllers?.();
    } catch (error) {
      this.#log.error({ err: error }, "afterControllers failed; continuing to stop");
    }
    await this.#cache.stop();
    await this.#options.webhooks?.stop();
    this.#measured.cache = undefined;
    this.#leaveElection.abort(new ManagerStoppedError("the manager is stopping"));
    await this.#campaign;
    // While a reconcile is still running, the lease must expire by itself.
    if (isDrained) await this.#election?.release();
    await this.#events.stop();
    if (this.#failure === undefined) this.#settled.resolve(undefined);
    else this.#settled.reject(this.#failure);
  }

  async #stopControllers(): Promise<boolean> {
    const { clock = systemClock, gracefulShutdownTimeoutMs = 30_000 } = this.#options;
    const drained = Promise.all(this.#runners.map((runner) => runner.drain())).then(() => true);
    const abort = (): void => {
      for (const runner of this.#runners) runner.abort(new ManagerStoppedError("the manager has stopped"));
    };
    // Another process may lead now: there is no time for a graceful stop.
    const graceMs = this.#failure instanceof LeaseLostError ? 0 : gracefulShutdownTimeoutMs;
    if (this.#runners.every((runner) => runner.inProgress === 0)) return drained;
    if (graceMs < 0) return drained;
    if (graceMs === 0) {
      abort();
      return false;
    }
    const isDrained = await new Promise<boolean>((resolve) => {
      const timer = clock.setTimer(graceMs, () => resolve(false));
      void drained.then(() => {
        timer.cancel();
        resolve(true);
      });
    });
    abort();
    if (!isDrained) {
      const running = this.#runners.reduce((sum, runner) => sum + runner.inProgress, 0);
      this.#log.warn({ running, graceMs }, "reconciles are still running after the grace period");
    }
    return isDrained;
  }
}
