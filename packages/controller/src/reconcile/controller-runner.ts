import { setMaxListeners } from "node:events";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { KubernetesObject } from "@keelson/api-machinery";
import { type Clock, sleep } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Logger } from "../logging/logger.ts";
import type { ControllerMetrics, ReconcileResult } from "../metrics/metrics.ts";
import { idOf } from "../cache/object-id.ts";
import { OwnWrites } from "../cache/own-writes.ts";
import type { Change } from "../cache/change.ts";
import type { ControllerDefinition } from "./controller-definition.ts";
import type { EventRecorder } from "../events/event-recorder.ts";
import { isTerminalError, type Request, type Result } from "./result.ts";
import { Attempt, messageOf } from "./reconcile-attempt.ts";
import { keyFields, type ReconcileCause, type ReconcileRecord, ReconcileTrace } from "./reconcile-trace.ts";
import type { Source } from "./request-mapping.ts";
import type { ChangeOrigin } from "../cache/cached-kind.ts";
import type { SharedCache } from "../cache/shared-cache.ts";
import { type AddOptions, lowPriority, type QueueItem, WorkQueue } from "../queue/work-queue.ts";

/** How long a request waits for the cache to show its own writes before it is retried with backoff. */
const ownWritesTimeoutMs = 5_000;

/** How long a worker starts further reconciles without letting the event loop serve I/O. */
const maxTurnMs = 10;

/** How long a stop waits for each trigger. */
const triggerStopTimeoutMs = 5_000;

/** Options of {@link ControllerRunner}. */
export interface ControllerRunnerOptions {
  readonly definition: ControllerDefinition;
  /** Maximum number of concurrent reconciles. */
  readonly maxConcurrent: number;
  readonly sources: readonly Source[];
  readonly cache: SharedCache;
  readonly client: Client;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  readonly events: EventRecorder;
  readonly metrics: ControllerMetrics;
  /** Number of reconciles kept for {@link ControllerRunner.records}. */
  readonly traceLength: number;
}

/**
 * Runs one controller: sources fill its queue, workers empty it. A request is never reconciled concurrently, nor before
 * the cache shows the writes of its previous reconcile. Namespaces take turns, and the event loop serves I/O between slow reconciles.
 */
export class ControllerRunner {
  readonly #options: ControllerRunnerOptions;
  readonly #definition: ControllerDefinition;
  readonly #queue: WorkQueue<Request>;
  readonly #writes: OwnWrites;
  readonly #log: Logger;
  readonly #abort = new AbortController();
  readonly #removeHandlers: (() => void | Promise<void>)[] = [];
  readonly #trace: ReconcileTrace;
  /** Requests that wait for the cache, with a function that stops waiting. */
  readonly #stale = new Map<string, () => void>();
  #workers: Promise<unknown> | undefined;
  /** Time that reconciles took until their first request, since a worker last let the event loop serve I/O. */
  #busyMs = 0;
  #isWarm = false;

  constructor(options: ControllerRunnerOptions) {
    this.#options = options;
    this.#definition = options.definition;
    this.#log = options.log.child({ controller: options.definition.name });
    this.#writes = new OwnWrites(options.cache);
    this.#trace = new ReconcileTrace(options.traceLength);
    // Every request of the running reconciles listens to it.
    setMaxListeners(0, this.#abort.signal);
    const { clock, random, metrics } = options;
    this.#queue = new WorkQueue({ clock, random, idOf, groupOf: namespaceOf, metrics, ...options.definition.backoff });
    options.metrics.watchInProgress(() => this.#queue.inProgressMs());
  }

  /** Fills the queue with every existing object, and with changes from now on. Nothing is reconciled yet. */
  warmUp(): void {
    if (this.#isWarm) return;
    this.#isWarm = true;
    for (const source of this.#options.sources) {
      const remove = source.kind.addHandler((change, origin) => {
        const isNew = !origin.initial && change.object.metadata.resourceVersion !== change.old?.metadata.resourceVersion;
        const priority = isNew || change.type === "delete" ? 0 : lowPriority;
        for (const request of source.requestsOf(change)) {
          this.#add(request, { priority: priority + this.#priorityOf(request) }, causeOf(change, origin));
        }
      });
      this.#removeHandlers.push(remove);
    }
    for (const trigger of this.#definition.triggers ?? []) {
      const { client, cache, clock } = this.#options;
      const enqueue = (request: Request): void => this.#add(request, { priority: 0 }, { why: "trigger" });
      this.#removeHandlers.push(trigger.start({ client, cache, clock, log: this.#log, enqueue }));
    }
  }

  /** Starts the workers. The caches must be synced: every existing object is queued before a worker starts. */
  start(): void {
    if (this.#workers !== undefined) throw new TypeError(`controller ${this.#definition.name} is already started`);
    this.warmUp();
    this.#workers = Promise.all(Array.from({ length: this.#options.maxConcurrent }, () => this.#work()));
  }

  /** Stops taking requests from the queue and waits for running reconciles. */
  async drain(): Promise<void> {
    const triggersStopped = Promise.all(this.#removeHandlers.splice(0).map((remove) => this.#stopSource(remove)));
    this.#queue.shutDown();
    for (const stop of this.#stale.values()) stop();
    this.#stale.clear();
    this.#writes.clear();
    await Promise.all([triggersStopped, this.#workers]);
  }

  async #stopSource(stop: () => void | Promise<void>): Promise<void> {
    const { clock } = this.#options;
    const stopped = new AbortController();
    try {
      const timeout = sleep(clock, triggerStopTimeoutMs, stopped.signal).then(
        () => this.#log.warn({ timeoutMs: triggerStopTimeoutMs }, "trigger did not stop in time"),
        () => {},
      );
      await Promise.race([stop(), timeout]);
    } catch (error) {
      this.#log.error({ err: error }, "trigger did not stop cleanly");
    } finally {
      stopped.abort();
    }
  }

  /** Aborts the signal of every running reconcile. */
  abort(reason: Error): void {
    this.#abort.abort(reason);
  }

  /** Number of running reconciles. */
  get inProgress(): number {
    return this.#queue.inProgress;
  }

  /** The last reconciles, oldest first. */
  records(): readonly ReconcileRecord[] {
    return this.#trace.records();
  }

  #priorityOf(request: Request): number {
    try {
      return this.#definition.priorityOf?.(request, this.#options.cache) ?? 0;
    } catch (error) {
      this.#log.error({ err: error, ...request }, "the priority of a request cannot be determined");
      return 0;
    }
  }

  #add(request: Request, options: AddOptions, cause: ReconcileCause): void {
    const dueAt = this.#queue.add(request, options);
    if (this.#trace.isOn) this.#trace.caused(idOf(request), cause, dueAt);
  }

  async #work(): Promise<void> {
    for (;;) {
      const item = this.#queue.take() ?? (await this.#queue.get());
      if (item === undefined) return;
      const id = idOf(item.value);
      if (!this.#writes.isSeen(id)) {
        this.#awaitOwnWrites(item, id);
        continue;
      }
      this.#options.metrics.activeWorkers(1);
      await this.#reconcile(item, id);
      this.#options.metrics.activeWorkers(-1);
      this.#queue.done(item.value);
      if (this.#busyMs < maxTurnMs) continue;
      // Reconciles that write nothing complete without I/O, and promises alone would starve it.
      this.#busyMs = 0;
      await nextTurn();
    }
  }

  /** Waits for the cache without occupying a worker. The request is queued again when the cache is current, or with backoff after a timeout. */
  #awaitOwnWrites({ value, priority }: QueueItem<Request>, id: string): void {
    this.#queue.done(value);
    if (this.#stale.has(id)) return;
    const end = (): void => {
      timer.cancel();
      stopWaiting();
      this.#stale.delete(id);
    };
    const timer = this.#options.clock.setTimer(ownWritesTimeoutMs, () => {
      end();
      this.#log.warn(
        { namespace: value.namespace, name: value.name },
        "the cache does not contain the writes of this request yet; retrying",
      );
      this.#add(value, { priority, rateLimited: true }, { why: "ownWrites" });
    });
    let stopWaiting = (): void => {};
    this.#stale.set(id, end);
    stopWaiting = this.#writes.whenSeen(id, () => {
      end();
      // The event that updated the cache may have queued it already; a second reconcile would find nothing new.
      if (!this.#queue.has(value)) this.#add(value, { priority }, { why: "ownWrites" });
    });
  }

  async #reconcile({ value, priority }: QueueItem<Request>, id: string): Promise<void> {
    const { cache, client, clock, events, metrics } = this.#options;
    const startedAt = clock.monotonic();
    const causes = this.#trace.takeCauses(id, startedAt);
    const attempt = new Attempt({
      definition: this.#definition,
      cache,
      client,
      clock,
      events,
      log: this.#log,
      request: value,
      stop: this.#abort.signal,
      isTraced: this.#trace.isOn,
      hooks: () => this.#writes.hooksFor(id, () => this.#add(value, { priority }, { why: "ownWrites" })),
    });
    const end = (result: ReconcileResult, more: Pick<ReconcileRecord, "requeueAfterMs" | "error">): void => {
      attempt.end();
      const durationMs = clock.monotonic() - startedAt;
      metrics.reconciled(result, durationMs);
      if (!this.#trace.isOn) return;
      const { id: uuid, reads, writes } = attempt;
      const controller = this.#definition.name;
      const began = clock.now() - durationMs;
      this.#trace.add({
        id: uuid,
        controller,
        request: value,
        startedAt: began,
        durationMs,
        causes,
        reads,
        writes,
        result,
        ...more,
      });
    };
    let result: Result | undefined;
    try {
      const reconciling = this.#definition.reconcile(value, attempt.context());
      this.#busyMs += clock.monotonic() - startedAt;
      result = (await reconciling) ?? undefined;
      // Otherwise the requeue would silently never happen.
      if (Number.isNaN(result?.requeueAfterMs)) throw new TypeError("reconcile returned NaN for requeueAfterMs");
    } catch (error) {
      end("error", { error: messageOf(error) });
      this.#afterFailure(error, value, priority, attempt);
      return;
    }
    const requeueAfterMs = result?.requeueAfterMs;
    this.#queue.forget(value);
    if (requeueAfterMs !== undefined && requeueAfterMs > 0) {
      end("requeue_after", { requeueAfterMs });
      const options = { afterMs: requeueAfterMs, priority: result?.priority ?? priority };
      this.#add(value, options, { why: "requeueAfter" });
    } else {
      end("success", {});
    }
  }

  #afterFailure(error: unknown, request: Request, priority: number, attempt: Attempt): void {
    const { metrics } = this.#options;
    // A reconcile that was aborted by the stop has nothing to report.
    if (this.#abort.signal.aborted) return;
    if (isTerminalError(error)) {
      metrics.terminalError();
      attempt.log.error({ err: error }, "reconcile failed permanently; waiting for a change");
      return;
    }
    if (attempt.timedOut) metrics.timedOut();
    if (error instanceof TypeError || error instanceof RangeError || error instanceof ReferenceError) {
      metrics.panicked();
      attempt.log.error({ err: error }, "reconcile panicked; retrying");
    } else {
      attempt.log.error({ err: error }, "reconcile failed; retrying");
    }
    this.#add(request, { rateLimited: true, priority }, { why: "retry" });
  }
}

const namespaceOf = ({ namespace = "" }: Request): string => namespace;

function causeOf({ type, object }: Change<KubernetesObject>, origin: ChangeOrigin): ReconcileCause {
  const { namespace, name, resourceVersion } = object.metadata;
  return {
    why: origin.resync ? "resync" : origin.initial ? "initial" : type,
    kind: object.kind,
    ...keyFields({ namespace, name }),
    ...(resourceVersion === undefined ? {} : { resourceVersion }),
  };
}
