import type { Clock } from "@keelson/api-machinery/time";
import type { Request } from "@keelson/controller";
import type { Dispatcher } from "undici";
import { callWebhook, type WebhookAnswer, type WebhookRequest } from "./webhook-call.ts";

/** A webhook call and the check that it belongs to. */
export interface WebhookCall extends WebhookRequest {
  /** Identifies the check. At most one call per check is in flight. */
  readonly key: string;
  /** Resource version of `state`. */
  readonly stateVersion: string;
}

/** State of a webhook check. */
export type WebhookState =
  | { readonly kind: "pending" }
  | {
      readonly kind: "answered";
      /** Time since the response arrived. */
      readonly ageMs: number;
      readonly stateVersion: string;
      readonly answer: WebhookAnswer;
    };

/** A {@link WebhookState} as it is kept: with the monotonic time of the response. */
type StoredState =
  | { readonly kind: "pending" }
  | { readonly kind: "answered"; readonly at: number; readonly stateVersion: string; readonly answer: WebhookAnswer };

/** Options of {@link WebhookRunner}. */
export interface WebhookRunnerOptions {
  readonly clock: Clock;
  /** Called when a response for this test has arrived. */
  readonly wake: (request: Request) => void;
  /** Maximum concurrent calls, overall and per host. Default: 16 and 4. */
  readonly concurrency?: number;
  readonly concurrencyPerHost?: number;
  /** Default: that of `createWebhookAgent`. */
  readonly dispatcher?: Dispatcher;
}

interface Waiting {
  readonly request: Request;
  readonly call: WebhookCall;
  readonly host: string;
}

/** Maximum cached responses per test. The oldest are evicted first. */
const maxCachedAnswers = 20_000;

/** Maximum queued calls. */
const maxWaiting = 10_000;

/**
 * Calls webhooks outside of reconciles, so that no reconcile waits for a response and a slow host delays only its own
 * checks. Responses are cached in memory while the test runs; after a restart the webhooks are called again.
 */
export class WebhookRunner {
  readonly #options: WebhookRunnerOptions;
  readonly #answers = new Map<string, Map<string, StoredState>>();
  readonly #waiting: Waiting[] = [];
  readonly #runningByHost = new Map<string, number>();
  readonly #abort = new AbortController();
  #running = 0;
  #dispatcher: Dispatcher | undefined;

  constructor(options: WebhookRunnerOptions) {
    this.#options = options;
    this.#dispatcher = options.dispatcher;
  }

  /** The state of a check of a test. */
  state(request: Request, key: string): WebhookState | undefined {
    const stored = this.#answers.get(testId(request))?.get(key);
    if (stored?.kind !== "answered") return stored;
    const { at, ...rest } = stored;
    return { ...rest, ageMs: Math.floor(this.#options.clock.monotonic() - at) };
  }

  /** Calls a webhook, unless a call for the same check is in flight. */
  call(request: Request, call: WebhookCall): void {
    const id = testId(request);
    const known = this.#answers.get(id) ?? new Map<string, StoredState>();
    this.#answers.set(id, known);
    if (known.get(call.key)?.kind === "pending" || this.#abort.signal.aborted) return;
    if (this.#waiting.length >= maxWaiting) {
      const answer: WebhookAnswer = { kind: "error", message: "too many queued webhook calls" };
      known.set(call.key, { kind: "answered", at: this.#options.clock.monotonic(), stateVersion: call.stateVersion, answer });
      return;
    }
    // Re-inserted at the end, so that the oldest entry comes first.
    known.delete(call.key);
    known.set(call.key, { kind: "pending" });
    const [oldest] = known.keys();
    if (known.size > maxCachedAnswers && oldest !== undefined) known.delete(oldest);
    this.#waiting.push({ request, call, host: URL.canParse(call.url) ? new URL(call.url).host : "" });
    this.#startWaiting();
  }

  /** Drops the cached responses of a test. */
  forget(request: Request): void {
    this.#answers.delete(testId(request));
  }

  /** Aborts all calls. */
  stop(): void {
    this.#abort.abort(new Error("the operator is stopping"));
    this.#waiting.length = 0;
    if (this.#options.dispatcher === undefined) void this.#dispatcher?.destroy();
  }

  #startWaiting(): void {
    const { concurrency = 16, concurrencyPerHost = 4 } = this.#options;
    for (let index = 0; index < this.#waiting.length && this.#running < concurrency; ) {
      const waiting = this.#waiting[index];
      if (waiting === undefined || (this.#runningByHost.get(waiting.host) ?? 0) >= concurrencyPerHost) {
        index++;
        continue;
      }
      this.#waiting.splice(index, 1);
      void this.#run(waiting);
    }
  }

  async #run({ request, call, host }: Waiting): Promise<void> {
    this.#running++;
    this.#runningByHost.set(host, (this.#runningByHost.get(host) ?? 0) + 1);
    // Loading undici is slow, and most tests have no webhooks.
    this.#dispatcher ??= (await import("./webhook-agent.ts")).createWebhookAgent();
    const answer = await callWebhook(call, this.#dispatcher, this.#abort.signal);
    this.#running--;
    const left = (this.#runningByHost.get(host) ?? 1) - 1;
    if (left === 0) this.#runningByHost.delete(host);
    else this.#runningByHost.set(host, left);
    if (this.#abort.signal.aborted) return;
    this.#startWaiting();
    const known = this.#answers.get(testId(request));
    if (known === undefined) return;
    known.set(call.key, { kind: "answered", at: this.#options.clock.monotonic(), stateVersion: call.stateVersion, answer });
    this.#options.wake(request);
  }
}

const testId = ({ namespace, name }: Request): string => `${namespace ?? ""}/${name}`;
