import type { DeepReadonly, KubernetesObject, ObjectKey, ResourceType } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import { randomUUID } from "node:crypto";
import { setMaxListeners } from "node:events";
import { InterceptedClient, type WriteHooks } from "./intercepted-client.ts";
import type { Logger } from "../logging/logger.ts";
import type { Cache } from "../cache/cache.ts";
import type { ControllerDefinition, ReconcileContext } from "./controller-definition.ts";
import type { EventRecorder } from "../events/event-recorder.ts";
import type { Request } from "./result.ts";
import {
  addDetail,
  keyFields,
  type ReconcileRead,
  type ReconcileWrite,
  TracedCache,
  type WriteVerb,
} from "./reconcile-trace.ts";

/** A reconcile exceeded its controller's timeout. The reason of its aborted signal. */
export class ReconcileTimeoutError extends Error {
  override readonly name = "ReconcileTimeoutError";
  readonly code = "ReconcileTimeout";
}

/** Options of {@link Attempt}. */
export interface AttemptOptions {
  readonly definition: ControllerDefinition;
  readonly cache: Cache;
  readonly client: Client;
  readonly clock: Clock;
  readonly events: EventRecorder;
  readonly log: Logger;
  readonly request: Request;
  /** Aborted when the manager stops. */
  readonly stop: AbortSignal;
  /** Whether reads and writes are recorded. */
  readonly isTraced: boolean;
  /** Further hooks on writes. Called when the client is first used. */
  readonly hooks: () => WriteHooks;
}

/** One call of a reconcile: its context, created lazily, and a record of what it did. */
export class Attempt {
  readonly id = randomUUID();
  readonly cache: Cache;
  readonly reads: ReconcileRead[] = [];
  readonly writes: ReconcileWrite[] = [];
  readonly signal: AbortSignal;
  readonly #options: AttemptOptions;
  readonly #controller: AbortController | undefined;
  readonly #onStop = (): void => this.#controller?.abort(this.#options.stop.reason);
  readonly #timer: { cancel(): void } | undefined;
  #client: Client | undefined;
  #log: Logger | undefined;

  constructor(options: AttemptOptions) {
    this.#options = options;
    this.cache = options.isTraced ? new TracedCache(options.cache, this.reads) : options.cache;
    const timeoutMs = options.definition.reconcileTimeoutMs;
    if (timeoutMs === undefined || timeoutMs <= 0) {
      this.signal = options.stop;
      return;
    }
    const controller = new AbortController();
    // Every request of the reconcile listens to it.
    setMaxListeners(0, controller.signal);
    this.#controller = controller;
    this.signal = controller.signal;
    if (options.stop.aborted) controller.abort(options.stop.reason);
    options.stop.addEventListener("abort", this.#onStop, { once: true });
    this.#timer = options.clock.setTimer(timeoutMs, () => {
      controller.abort(new ReconcileTimeoutError(`reconcile exceeded its timeout of ${timeoutMs} ms`));
    });
  }

  /** The context of the call. All its properties are own and enumerable, so a controller may spread it. */
  context(): ReconcileContext {
    const { clock, events } = this.#options;
    const client = (): Client => this.#interceptedClient();
    const log = (): Logger => this.log;
    return {
      ...{ cache: this.cache, clock, events, signal: this.signal },
      get client() {
        return client();
      },
      get log() {
        return log();
      },
    };
  }

  /** Whether the signal was aborted by this attempt's timeout rather than by a stop. */
  get timedOut(): boolean {
    return this.#controller?.signal.reason instanceof ReconcileTimeoutError;
  }

  #interceptedClient(): Client {
    const { client, hooks, isTraced } = this.#options;
    this.#client ??= new InterceptedClient(client, isTraced ? this.#traced(hooks()) : hooks());
    return this.#client;
  }

  /** The logger of this reconcile. */
  get log(): Logger {
    const { log, definition, request } = this.#options;
    const { namespace, name } = request;
    this.#log ??= log.child({ kind: definition.for.kind, namespace, name, reconcileID: this.id });
    return this.#log;
  }

  end(): void {
    this.#timer?.cancel();
    if (this.#controller !== undefined) this.#options.stop.removeEventListener("abort", this.#onStop);
  }

  #traced(hooks: WriteHooks): WriteHooks {
    return {
      ...hooks,
      read: (type, key) => addDetail(this.reads, { kind: type.kind, live: true, ...keyFields(key) }),
      written: (type, object, verb) => {
        hooks.written?.(type, object, verb);
        // A create in a subresource may return a Status, which has no metadata.
        this.#wrote(verb, type, object.metadata ?? {}, object);
      },
      deleting: (type, key) => {
        const deleted = hooks.deleting?.(type, key);
        return () => {
          deleted?.();
          this.#wrote("delete", type, key);
        };
      },
      refused: (type, key, verb, error) => {
        hooks.refused?.(type, key, verb, error);
        this.#wrote(verb, type, key, undefined, error);
      },
    };
  }

  #wrote(
    verb: WriteVerb,
    type: ResourceType,
    key: Partial<ObjectKey>,
    object?: DeepReadonly<KubernetesObject>,
    error?: unknown,
  ): void {
    const version = object?.metadata?.resourceVersion;
    addDetail(this.writes, {
      verb,
      kind: type.kind,
      ...keyFields(key),
      ...(version === undefined ? {} : { resourceVersion: version }),
      ...(error === undefined ? {} : { error: messageOf(error) }),
    });
  }
}

/** What an error says, however it was thrown. */
export function messageOf(error: unknown): string {
  try {
    return String(error instanceof Error ? error.message : error);
  } catch {
    // An object without a prototype, or one whose message throws.
    return "unprintable error";
  }
}
