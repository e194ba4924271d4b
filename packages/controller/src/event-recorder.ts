import { type Clock, type DeepReadonly, isNotFound, isStatusError, type KubernetesObject, sleep } from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import { type Event, eventType, type ObjectReference } from "./event.ts";
import { EventCorrelator, type ReportedEvent } from "./event-correlator.ts";
import { microTime } from "./lease.ts";
import type { Logger } from "./logger.ts";
import type { EventRecorder } from "./reconcile.ts";

/** Options of {@link createEventRecorder}. */
export interface EventRecorderOptions {
  readonly client: Client;
  readonly clock: Clock;
  readonly random?: () => number;
  readonly log: Logger;
  /** Who reports: `reportingController`. */
  readonly controller: string;
  /** Which one of them: `reportingInstance`. Default: the controller's name. */
  readonly instance?: string;
}

/** A recorder that can be waited for. */
export interface RunningEventRecorder extends EventRecorder {
  /** Waits until what was recorded has been sent, at most `timeoutMs`; what comes later is dropped. */
  stop(timeoutMs?: number): Promise<void>;
}

type Recorded = Parameters<EventRecorder["event"]>[1];

/** Events that wait to be sent; more are dropped, as a recorder must not fill the memory when the server is away. */
const longestQueue = 1000;
const attempts = 4;
const retryMs = 1_000;
const noteLimit = 1024;
const nameLimit = 128;

/** Makes a recorder of events (events.k8s.io/v1). Events are sent one by one in the background, with a few retries. */
export function createEventRecorder(options: EventRecorderOptions): RunningEventRecorder {
  return new QueueingRecorder(options);
}

class QueueingRecorder implements RunningEventRecorder {
  readonly #options: EventRecorderOptions;
  readonly #correlator: EventCorrelator<{ readonly namespace: string; readonly name: string }>;
  readonly #stop = new AbortController();
  readonly #queue: { readonly regarding: DeepReadonly<KubernetesObject>; readonly event: Recorded; readonly at: number }[] = [];
  #sending: Promise<void> | undefined;
  #isStopped = false;
  #dropped = 0;
  #made = 0;

  constructor(options: EventRecorderOptions) {
    this.#options = options;
    this.#correlator = new EventCorrelator(options.clock);
  }

  event(regarding: DeepReadonly<KubernetesObject>, event: Recorded): void {
    if (this.#isStopped) return;
    if (this.#queue.length >= longestQueue) {
      this.#dropped++;
      return;
    }
    this.#queue.push({ regarding, event, at: this.#options.clock.now() });
    this.#sending ??= this.#send();
  }

  async stop(timeoutMs = 5_000): Promise<void> {
    this.#isStopped = true;
    if (this.#sending === undefined) return;
    const timer = this.#options.clock.setTimer(timeoutMs, () => this.#stop.abort(new Error("events were not sent in time")));
    await this.#sending;
    timer.cancel();
  }

  async #send(): Promise<void> {
    // The caller goes on first: recording never runs requests on its stack.
    await Promise.resolve();
    for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift()) {
      try {
        await this.#sendOne(next.regarding, next.event, next.at);
      } catch (error) {
        const { log } = this.#options;
        log.warn({ err: error, reason: next.event.reason, name: next.regarding.metadata.name }, "an event was not recorded");
      }
      if (this.#stop.signal.aborted) this.#queue.length = 0;
      if (this.#dropped > 0) {
        this.#options.log.warn({ dropped: this.#dropped }, "events were dropped: more were recorded than could be sent");
        this.#dropped = 0;
      }
    }
    this.#sending = undefined;
  }

  async #sendOne(regarding: DeepReadonly<KubernetesObject>, event: Recorded, at: number): Promise<void> {
    const note = cutToBytes(event.note, noteLimit);
    const reported: ReportedEvent = {
      about: JSON.stringify(referenceTo(regarding, false)),
      type: event.type,
      reason: event.reason.slice(0, nameLimit),
      action: (event.action ?? event.reason).slice(0, nameLimit),
      note,
    };
    const correlation = this.#correlator.correlate(reported);
    const { client } = this.#options;
    if (correlation.kind === "repeat") {
      const body = { series: { count: correlation.count, lastObservedTime: microTime(at) } };
      try {
        await this.#retry((signal) => client.patch(eventType, correlation.stored, { type: "merge", body }, { signal }));
      } catch (error) {
        // Events do not live for ever: one that is gone is told anew.
        if (!isNotFound(error)) throw error;
        await this.#create(regarding, event, reported, note, at);
      }
    } else if (correlation.kind === "create") {
      correlation.remember(await this.#create(regarding, event, reported, cutToBytes(correlation.note, noteLimit), at));
    }
  }

  async #create(
    regarding: DeepReadonly<KubernetesObject>,
    event: Recorded,
    reported: ReportedEvent,
    note: string,
    at: number,
  ): Promise<{ readonly namespace: string; readonly name: string }> {
    const { client, random = Math.random } = this.#options;
    const controller = event.controller ?? this.#options.controller;
    const instance = this.#options.instance ?? controller;
    const namespace = regarding.metadata.namespace ?? "default";
    const unique = `${Math.floor(at).toString(16)}${(this.#made++).toString(16)}${Math.floor(random() * 2 ** 32).toString(16)}`;
    const name = `${(regarding.metadata.name ?? "object").slice(0, 200)}.${unique}`;
    const object: Omit<Event, "apiVersion" | "kind"> = {
      metadata: { namespace, name },
      eventTime: microTime(at),
      reportingController: controller,
      reportingInstance: instance.slice(0, nameLimit),
      action: reported.action,
      reason: reported.reason,
      regarding: referenceTo(regarding, true),
      ...(event.related === undefined ? {} : { related: referenceTo(event.related, true) }),
      note,
      type: reported.type,
    };
    await this.#retry((signal) => client.create(eventType, object, { signal }));
    return { namespace, name };
  }

  /** Sends again where no answer came or the server had trouble; a refusal stands. */
  async #retry(send: (signal: AbortSignal) => Promise<unknown>): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        await send(this.#stop.signal);
        return;
      } catch (error) {
        if (
          attempt >= attempts ||
          this.#stop.signal.aborted ||
          (isStatusError(error) && error.code < 500 && error.code !== 429)
        ) {
          if (attempt > 1 && isStatusError(error, "AlreadyExists")) return;
          throw error;
        }
      }
      await sleep(this.#options.clock, retryMs * 2 ** (attempt - 1), this.#stop.signal);
    }
  }
}

function referenceTo(object: DeepReadonly<KubernetesObject>, withVersion: boolean): ObjectReference {
  const { namespace, name, uid, resourceVersion } = object.metadata;
  return {
    apiVersion: object.apiVersion,
    kind: object.kind,
    ...(namespace === undefined ? {} : { namespace }),
    ...(name === undefined ? {} : { name }),
    ...(uid === undefined ? {} : { uid }),
    ...(withVersion && resourceVersion !== undefined ? { resourceVersion } : {}),
  };
}

/** At most `limit` bytes of UTF-8, never half a character. */
function cutToBytes(text: string, limit: number): string {
  if (Buffer.byteLength(text) <= limit) return text;
  const bytes = Buffer.from(text).subarray(0, limit - 3);
  return `${new TextDecoder("utf-8").decode(bytes, { stream: true })}...`;
}
