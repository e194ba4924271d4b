import type { KubernetesObject } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Logger } from "../logging/logger.ts";
import type { ControllerMetrics, ReconcileResult } from "../metrics/metrics.ts";
import { idOf } from "../cache/object-id.ts";
import { OwnWrites } from "../cache/own-writes.ts";
import type { Change } from "../cache/change.ts";
import type { ControllerDefinition } from "./controller-definition.ts";
import type { EventRecorder } from "../events/event-recorder.ts";
import { type Request, type Result, TerminalError } from "./result.ts";
import { Attempt, messageOf } from "./reconcile-attempt.ts";
import { keyFields, type ReconcileCause, type ReconcileRecord, ReconcileTrace } from "./reconcile-trace.ts";
import type { Source } from "./request-mapping.ts";
import type { ChangeOrigin } from "../cache/cached-kind.ts";
import type { SharedCache } from "../cache/shared-cache.ts";
import { type AddOptions, lowPriority, type QueueItem, WorkQueue } from "../queue/work-queue.ts";

/** How long a request waits for the cache to show its own writes before it is tried again with backoff. */
const ownWritesTimeoutMs = 5_000;

/** Options of {@link ControllerRunner}. */
export interface ControllerRunnerOptions {
  readonly definition: ControllerDefinition;
  /** Reconciles that run at once. */
  readonly maxConcurrent: number;
  readonly sources: readonly Source[];
  readonly cache: SharedCache;
  readonly client: Client;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  readonly events: EventRecorder;
  readonly metrics: ControllerMetrics;
  /** How many reconciles are kept for {@link ControllerRunner.records}. */
  readonly traceLength: number;
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
  readonly #trace: ReconcileTrace;
  readonly #stale = new Map<string, () => void>();
  #workers: Promise<unknown> | undefined;
  #isWarm = false;

  constructor(options: ControllerRunnerOptions) {
    this.#options = options;
    this.#definition = options.definition;
    this.#log = options.log.child({ controller: options.definition.name });
    this.#writes = new OwnWrites(options.cache);
    this.#trace = new ReconcileTrace(options.traceLength);
    const { clock, random, metrics } = options;
    this.#queue = new WorkQueue({ clock, random, idOf, metrics, ...options.definition.backoff });
    options.metrics.watchInProgress(() => this.#queue.inProgressMs());
  }

  /** Fills the queue with every object there is, and from now on with what changes; nothing is reconciled yet. */
  warmUp(): void {
    if (this.#isWarm) return;
    this.#isWarm = true;
    for (const source of this.#options.sources) {
      const remove = source.kind.addHandler((change, origin) => {
        const isNews = !origin.initial && change.object.metadata.resourceVersion !== change.old?.metadata.resourceVersion;
        const priority = isNews || change.type === "delete" ? 0 : lowPriority;
        for (const request of source.requestsOf(change)) this.#add(request, { priority }, causeOf(change, origin));
      });
      this.#removeHandlers.push(remove);
    }
    for (const trigger of this.#definition.triggers ?? []) {
      const { client, cache, clock } = this.#options;
      const enqueue = (request: Request): void => this.#add(request, { priority: 0 }, { why: "trigger" });
      this.#removeHandlers.push(trigger.start({ client, cache, clock, log: this.#log, enqueue }));
    }
  }

  /** Starts. The caches are synced: the handlers put every object there is in the queue before a worker begins. */
  start(): void {
    if (this.#workers !== undefined) throw new Error(`controller ${this.#definition.name} was started before`);
    this.warmUp();
    this.#workers = Promise.all(Array.from({ length: this.#options.maxConcurrent }, () => this.#work()));
  }

  /** Takes nothing more from the queue and waits for what runs. */
  async drain(): Promise<void> {
    for (const remove of this.#removeHandlers.splice(0)) {
      try {
        remove();
      } catch (error) {
        this.#log.error({ err: error }, "a trigger did not stop cleanly");
      }
    }
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

  /** Its last reconciles, the oldest first. */
  records(): readonly ReconcileRecord[] {
    return this.#trace.records();
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
      this.#add(value, { priority, rateLimited: true }, { why: "ownWrites" });
    });
    let stopWaiting = (): void => {};
    this.#stale.set(id, end);
    stopWaiting = this.#writes.whenSeen(id, () => {
      end();
      // The event that made the cache current may have added it already; a second turn would find nothing new.
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
      result = (await this.#definition.reconcile(value, attempt)) ?? undefined;
      // Else what was to run again would never do so, without a word.
      if (Number.isNaN(result?.requeueAfterMs)) throw new TypeError("reconcile returned NaN as requeueAfterMs");
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
    this.#add(request, { rateLimited: true, priority }, { why: "retry" });
  }
}

function causeOf({ type, object }: Change<KubernetesObject>, origin: ChangeOrigin): ReconcileCause {
  const { namespace, name, resourceVersion } = object.metadata;
  return {
    why: origin.resync ? "resync" : origin.initial ? "initial" : type,
    kind: object.kind,
    ...keyFields({ namespace, name }),
    ...(resourceVersion === undefined ? {} : { resourceVersion }),
  };
}

function isTerminal(error: unknown): boolean {
  return error instanceof TerminalError || (error instanceof Error && (error as { code?: unknown }).code === "Terminal");
}
