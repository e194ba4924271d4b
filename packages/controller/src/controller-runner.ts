import type { Clock } from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import { randomUUID } from "node:crypto";
import type { Logger } from "./logger.ts";
import type { ControllerMetrics } from "./metrics.ts";
import { idOf } from "./object-id.ts";
import { OwnWrites } from "./own-writes.ts";
import {
  type ControllerDefinition,
  type EventRecorder,
  type ReconcileContext,
  type Request,
  type Result,
  TerminalError,
} from "./reconcile.ts";
import type { Source } from "./request-mapping.ts";
import type { SharedCache } from "./shared-cache.ts";
import { lowPriority, type QueueItem, WorkQueue } from "./work-queue.ts";

/** How long a request waits for the cache to show its own writes before it is tried again with backoff. */
const ownWritesTimeoutMs = 5_000;

/** A reconcile took longer than its controller allows: the reason of its signal. */
export class ReconcileTimeoutError extends Error {
  override readonly name = "ReconcileTimeoutError";
  readonly code = "ReconcileTimeout";
}

/** Options of {@link ControllerRunner}. */
export interface ControllerRunnerOptions {
  readonly definition: ControllerDefinition;
  readonly sources: readonly Source[];
  readonly cache: SharedCache;
  readonly client: Client;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  readonly events: EventRecorder;
  readonly metrics: ControllerMetrics;
}

/**
 * Runs one controller: sources fill its queue, workers empty it. A request is never reconciled twice at once, and not before
 * the cache shows what its last reconcile wrote.
 */
export class ControllerRunner {
  readonly #options: ControllerRunnerOptions;
  readonly #definition: ControllerDefinition;
  readonly #queue: WorkQueue<Request>;
  readonly #writes: OwnWrites;
  readonly #log: Logger;
  readonly #abort = new AbortController();
  readonly #removeHandlers: (() => void)[] = [];
  /** Requests that wait for the cache, and how to stop that. */
  readonly #stale = new Map<string, () => void>();
  #workers: Promise<unknown> | undefined;

  constructor(options: ControllerRunnerOptions) {
    this.#options = options;
    this.#definition = options.definition;
    this.#log = options.log.child({ controller: options.definition.name });
    this.#writes = new OwnWrites(options.cache);
    this.#queue = new WorkQueue({ clock: options.clock, random: options.random, idOf, metrics: options.metrics });
    options.metrics.watchInProgress(() => this.#queue.inProgressMs());
  }

  /** Starts. The caches are synced: the handlers put every object there is in the queue before a worker begins. */
  start(): void {
    if (this.#workers !== undefined) throw new Error(`controller ${this.#definition.name} was started before`);
    for (const source of this.#options.sources) {
      const remove = source.kind.addHandler((change, origin) => {
        const isNews = !origin.initial && change.object.metadata.resourceVersion !== change.old?.metadata.resourceVersion;
        const priority = isNews || change.type === "delete" ? 0 : lowPriority;
        for (const request of source.requestsOf(change)) this.#queue.add(request, { priority });
      });
      this.#removeHandlers.push(remove);
    }
    for (const trigger of this.#definition.triggers ?? []) {
      const { client, cache, clock } = this.#options;
      const enqueue = (request: Request): void => this.#queue.add(request, { priority: 0 });
      this.#removeHandlers.push(trigger.start({ client, cache, clock, log: this.#log, enqueue }));
    }
    const count = Math.max(this.#definition.maxConcurrentReconciles ?? 1, 1);
    this.#workers = Promise.all(Array.from({ length: count }, () => this.#work()));
  }

  /** Takes nothing more from the queue and waits for what runs. */
  async drain(): Promise<void> {
    for (const remove of this.#removeHandlers.splice(0)) remove();
    this.#queue.shutDown();
    for (const stop of this.#stale.values()) stop();
    this.#stale.clear();
    this.#writes.clear();
    await this.#workers;
  }

  /** Fires the signal of every reconcile that runs. */
  abort(reason: Error): void {
    this.#abort.abort(reason);
  }

  /** Reconciles that run, by request. */
  get inProgress(): number {
    return this.#queue.inProgress;
  }

  async #work(): Promise<void> {
    for (;;) {
      const item = this.#queue.take() ?? (await this.#queue.get());
      if (item === undefined) return;
      const id = idOf(item.value);
      if (!this.#writes.isSeen(id)) {
        this.#putAside(item, id);
        continue;
      }
      this.#options.metrics.activeWorkers(1);
      await this.#reconcile(item, id);
      this.#options.metrics.activeWorkers(-1);
      this.#queue.done(item.value);
    }
  }

  /** Waits for the cache without a worker: the request comes back when it is current, or with backoff when that takes long. */
  #putAside({ value, priority }: QueueItem<Request>, id: string): void {
    this.#queue.done(value);
    if (this.#stale.has(id)) return;
    const end = (): void => {
      timer.cancel();
      stopWaiting();
      this.#stale.delete(id);
    };
    const timer = this.#options.clock.setTimer(ownWritesTimeoutMs, () => {
      end();
      this.#log.warn({ namespace: value.namespace, name: value.name }, "the cache does not show this request's own writes yet");
      this.#queue.add(value, { priority, rateLimited: true });
    });
    let stopWaiting = (): void => {};
    this.#stale.set(id, end);
    stopWaiting = this.#writes.whenSeen(id, () => {
      end();
      // The event that made the cache current may have added it already; a second turn would find nothing new.
      if (!this.#queue.has(value)) this.#queue.add(value, { priority });
    });
  }

  async #reconcile({ value, priority }: QueueItem<Request>, id: string): Promise<void> {
    const { clock, metrics } = this.#options;
    const startedAt = clock.monotonic();
    const attempt = new Attempt(this.#options, this.#log, this.#abort.signal, value, () =>
      this.#writes.clientFor(id, this.#options.client),
    );
    let result: Result | undefined;
    let failed = false;
    let failure: unknown;
    try {
      result = (await this.#definition.reconcile(value, attempt)) ?? undefined;
    } catch (error) {
      failed = true;
      failure = error;
    }
    attempt.end();
    const ms = clock.monotonic() - startedAt;
    if (failed) {
      metrics.reconciled("error", ms);
      this.#afterFailure(failure, value, priority, attempt);
      return;
    }
    const requeueAfterMs = result?.requeueAfterMs;
    this.#queue.forget(value);
    if (requeueAfterMs !== undefined && requeueAfterMs > 0) {
      metrics.reconciled("requeue_after", ms);
      this.#queue.add(value, { afterMs: requeueAfterMs, priority: result?.priority ?? priority });
    } else {
      metrics.reconciled("success", ms);
    }
  }

  #afterFailure(error: unknown, request: Request, priority: number, attempt: Attempt): void {
    const { metrics } = this.#options;
    // Reconciles that the stop broke off have nothing to report.
    if (this.#abort.signal.aborted) return;
    if (isTerminal(error)) {
      metrics.terminalError();
      attempt.log.error({ err: error }, "reconcile failed for good; it runs again when something changes");
      return;
    }
    if (attempt.timedOut) metrics.timedOut();
    if (error instanceof TypeError || error instanceof RangeError || error instanceof ReferenceError) {
      metrics.panicked();
      attempt.log.error({ err: error }, "reconcile panicked; it is tried again");
    } else {
      attempt.log.error({ err: error }, "reconcile failed; it is tried again");
    }
    this.#queue.add(request, { rateLimited: true, priority });
  }
}

function isTerminal(error: unknown): boolean {
  return error instanceof TerminalError || (error instanceof Error && (error as { code?: unknown }).code === "Terminal");
}

/** One call of a reconcile: its context, made as far as it is used. */
class Attempt implements ReconcileContext {
  readonly cache: SharedCache;
  readonly clock: Clock;
  readonly events: EventRecorder;
  readonly signal: AbortSignal;
  readonly #controller: AbortController | undefined;
  readonly #stop: AbortSignal;
  readonly #onStop = (): void => this.#controller?.abort(this.#stop.reason);
  readonly #timer: { cancel(): void } | undefined;
  readonly #base: Logger;
  readonly #request: Request;
  readonly #kind: string;
  readonly #makeClient: () => Client;
  #client: Client | undefined;
  #log: Logger | undefined;

  constructor(options: ControllerRunnerOptions, log: Logger, stop: AbortSignal, request: Request, makeClient: () => Client) {
    this.cache = options.cache;
    this.clock = options.clock;
    this.events = options.events;
    this.#makeClient = makeClient;
    this.#base = log;
    this.#request = request;
    this.#kind = options.definition.for.kind;
    this.#stop = stop;
    const timeoutMs = options.definition.reconcileTimeoutMs;
    if (timeoutMs === undefined || timeoutMs <= 0) {
      this.signal = stop;
      return;
    }
    const controller = new AbortController();
    this.#controller = controller;
    this.signal = controller.signal;
    if (stop.aborted) controller.abort(stop.reason);
    stop.addEventListener("abort", this.#onStop, { once: true });
    this.#timer = options.clock.setTimer(timeoutMs, () => {
      controller.abort(new ReconcileTimeoutError(`the reconcile took longer than ${timeoutMs} ms`));
    });
  }

  /** Whether it was this attempt's own timeout that fired the signal, not a stop. */
  get timedOut(): boolean {
    return this.#controller?.signal.reason instanceof ReconcileTimeoutError;
  }

  get client(): Client {
    this.#client ??= this.#makeClient();
    return this.#client;
  }

  get log(): Logger {
    const { namespace, name } = this.#request;
    this.#log ??= this.#base.child({ kind: this.#kind, namespace, name, reconcileID: randomUUID() });
    return this.#log;
  }

  end(): void {
    this.#timer?.cancel();
    if (this.#controller !== undefined) this.#stop.removeEventListener("abort", this.#onStop);
  }
}
