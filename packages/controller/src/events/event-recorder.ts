import { type DeepReadonly, isNotFound, isStatusError, type KubernetesObject } from "@keelson/api-machinery";
import { type Clock, sleep } from "@keelson/api-machinery/time";
import { isDns1123SubdomainName } from "@keelson/api-machinery/validation";
import { type Client, TransportError } from "@keelson/client";
import { EventsEvent, type EventsEventObject, type ObjectReference } from "@keelson/api-machinery/kinds";
import { EventCorrelator } from "./event-correlator.ts";
import { formatMicroTime } from "@keelson/api-machinery/time";
import type { Logger } from "../logging/logger.ts";

/** Writes Kubernetes events (events.k8s.io/v1) about objects, as series if they repeat. Never throws, never waits. */
export interface EventRecorder {
  event(
    regarding: DeepReadonly<KubernetesObject>,
    event: {
      readonly type: "Normal" | "Warning";
      /** CamelCase, at most 128 characters. */
      readonly reason: string;
      /** The action taken or attempted, CamelCase. Default: the reason. */
      readonly action?: string;
      /** At most 1 kB; longer notes are truncated. */
      readonly note: string;
      readonly related?: DeepReadonly<KubernetesObject>;
      /** `reportingController`. Default: the recorder's. */
      readonly controller?: string;
    },
  ): void;
}

/** Options of {@link createEventRecorder}. */
export interface EventRecorderOptions {
  readonly client: Client;
  readonly clock: Clock;
  readonly random?: () => number;
  readonly log: Logger;
  /** `reportingController`. */
  readonly controller: string;
  /** `reportingInstance`. Default: the controller's name. */
  readonly instance?: string;
}

/** A recorder that sends events until it is stopped. */
export interface RunningEventRecorder extends EventRecorder {
  /** Waits up to `timeoutMs` (default 5000) until the recorded events are sent. Events recorded later are dropped. */
  stop(timeoutMs?: number): Promise<void>;
}

type Reported = Parameters<EventRecorder["event"]>[1];

/** A queued event. It holds references instead of objects, so that a long queue does not keep the objects in memory. */
interface Recorded {
  readonly about: string;
  readonly regarding: ObjectReference;
  readonly related: ObjectReference | undefined;
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly action: string;
  readonly note: string;
  readonly controller: string;
  readonly at: number;
}

/** Maximum number of queued events. More are dropped, to bound memory while the server is away. */
const maxQueued = 1000;
const attempts = 4;
const retryMs = 1_000;
const noteLimit = 1024;
const nameLimit = 128;

/** Creates a recorder of events (events.k8s.io/v1). Events are sent one by one in the background, with a few retries. */
export function createEventRecorder(options: EventRecorderOptions): RunningEventRecorder {
  return new QueueingRecorder(options);
}

class QueueingRecorder implements RunningEventRecorder {
  readonly #options: EventRecorderOptions;
  readonly #correlator: EventCorrelator<{ readonly namespace: string; readonly name: string }>;
  readonly #stop = new AbortController();
  readonly #queue: Recorded[] = [];
  #sending: Promise<void> | undefined;
  #isStopped = false;
  #dropped = 0;
  #created = 0;

  constructor(options: EventRecorderOptions) {
    this.#options = options;
    this.#correlator = new EventCorrelator(options.clock);
  }

  event(regarding: DeepReadonly<KubernetesObject>, event: Reported): void {
    if (this.#isStopped) return;
    if (this.#queue.length >= maxQueued) {
      this.#dropped++;
      return;
    }
    try {
      this.#queue.push(this.#recorded(regarding, event));
    } catch (error) {
      // JavaScript callers may pass invalid values.
      this.#options.log.warn({ err: error }, "could not record event");
      return;
    }
    this.#sending ??= this.#send();
  }

  async stop(timeoutMs = 5_000): Promise<void> {
    this.#isStopped = true;
    if (this.#sending === undefined) return;
    const timer = this.#options.clock.setTimer(timeoutMs, () =>
      this.#stop.abort(new TransportError("Timeout", "events were not sent in time")),
    );
    await this.#sending;
    timer.cancel();
  }

  async #send(): Promise<void> {
    // Let the caller continue first: recording never sends requests on its stack.
    await Promise.resolve();
    for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift()) {
      try {
        await this.#sendOne(next);
      } catch (error) {
        const { reason, regarding } = next;
        this.#options.log.warn({ err: error, reason, name: regarding.name }, "could not record event");
      }
      if (this.#stop.signal.aborted) this.#queue.length = 0;
      if (this.#dropped > 0) {
        this.#options.log.warn({ dropped: this.#dropped }, "dropped events: they were recorded faster than they could be sent");
        this.#dropped = 0;
      }
    }
    this.#sending = undefined;
  }

  #recorded(regarding: DeepReadonly<KubernetesObject>, event: Reported): Recorded {
    return {
      about: JSON.stringify(referenceTo(regarding, false)),
      regarding: referenceTo(regarding, true),
      related: event.related === undefined ? undefined : referenceTo(event.related, true),
      type: event.type,
      reason: event.reason.slice(0, nameLimit),
      action: (event.action ?? event.reason).slice(0, nameLimit),
      note: truncateToBytes(event.note, noteLimit),
      controller: event.controller ?? this.#options.controller,
      at: this.#options.clock.now(),
    };
  }

  async #sendOne(event: Recorded): Promise<void> {
    const correlation = this.#correlator.correlate(event);
    if (correlation.kind === "drop") return;
    if (correlation.kind === "repeat") {
      const body = { series: { count: correlation.count, lastObservedTime: formatMicroTime(event.at) } };
      const { client } = this.#options;
      try {
        await this.#retry((signal) => client.patch(EventsEvent, correlation.stored, { type: "merge", body }, { signal }));
        return;
      } catch (error) {
        // Events expire: create a new one.
        if (!isNotFound(error)) throw error;
      }
    }
    correlation.remember(await this.#create(event, truncateToBytes(correlation.note, noteLimit)));
  }

  async #create(event: Recorded, note: string): Promise<{ readonly namespace: string; readonly name: string }> {
    const { client, random = Math.random } = this.#options;
    const { regarding, related, controller, at, action, reason, type } = event;
    const instance = this.#options.instance ?? controller;
    const namespace = regarding.namespace ?? "default";
    const unique = `${Math.floor(at).toString(16)}${(this.#created++).toString(16)}${Math.floor(random() * 2 ** 32).toString(16)}`;
    const named = `${(regarding.name ?? "object").slice(0, 200)}.${unique}`;
    // Some names, such as the ClusterRole `system:node`, are not valid names of an event.
    const name = isDns1123SubdomainName(named) ? named : `event.${unique}`;
    const object: Omit<EventsEventObject, "apiVersion" | "kind"> = {
      metadata: { namespace, name },
      eventTime: formatMicroTime(at),
      reportingController: controller,
      reportingInstance: instance.slice(0, nameLimit),
      action,
      reason,
      regarding,
      ...(related === undefined ? {} : { related }),
      note,
      type,
    };
    await this.#retry((signal) => client.create(EventsEvent, object, { signal }));
    return { namespace, name };
  }

  /** Retries if there was no response or the server failed. Rejections are final. */
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

/** Truncates to `limit` bytes of UTF-8 without splitting a character. */
function truncateToBytes(text: string, limit: number): string {
  if (text.length <= limit && Buffer.byteLength(text) <= limit) return text;
  const bytes = Buffer.from(text.slice(0, limit)).subarray(0, limit - 3);
  return `${new TextDecoder("utf-8").decode(bytes, { stream: true })}...`;
}
