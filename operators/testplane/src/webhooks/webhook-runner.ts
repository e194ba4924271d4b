import type { Clock } from "@keelson/api-machinery/time";
import type { Request } from "@keelson/controller";
import type { Dispatcher } from "undici";
import { callWebhook, type WebhookAnswer, type WebhookQuestion } from "./webhook-call.ts";

/** A question with its place in a test. */
export interface WebhookAsk extends WebhookQuestion {
  /** Names the check: the same one is not asked twice at once. */
  readonly key: string;
  /** The version of `state`. */
  readonly stateVersion: string;
}

/** What is known of a webhook's check. */
export type WebhookKnowledge =
  | { readonly kind: "asking" }
  | { readonly kind: "answered"; readonly atMs: number; readonly stateVersion: string; readonly answer: WebhookAnswer };

/** Options of {@link WebhookRunner}. */
export interface WebhookRunnerOptions {
  readonly clock: Clock;
  /** Called when an answer for this test is there. */
  readonly wake: (request: Request) => void;
  /** Asked at once, in all and of one host. Default: 16 and 4. */
  readonly concurrency?: number;
  readonly concurrencyPerHost?: number;
  /** Default: one of its own. */
  readonly dispatcher?: Dispatcher;
}

interface Waiting {
  readonly request: Request;
  readonly ask: WebhookAsk;
  readonly host: string;
}

/** How many answers of one test are kept: those of earlier rounds and checks are not looked at again. */
const maxKnown = 20_000;

/** How many questions may wait. */
const maxWaiting = 10_000;

/**
 * Asks webhooks beside the reconciles: none of them waits for an answer, and a slow host holds up only its own checks. What is
 * known is kept for as long as its test runs and no longer than this process: a new one asks again.
 */
export class WebhookRunner {
  readonly #options: WebhookRunnerOptions;
  readonly #known = new Map<string, Map<string, WebhookKnowledge>>();
  readonly #waiting: Waiting[] = [];
  readonly #runningByHost = new Map<string, number>();
  readonly #abort = new AbortController();
  #running = 0;
  #dispatcher: Dispatcher | undefined;

  constructor(options: WebhookRunnerOptions) {
    this.#options = options;
    this.#dispatcher = options.dispatcher;
  }

  /** What is known of a check of a test. */
  known(request: Request, key: string): WebhookKnowledge | undefined {
    return this.#known.get(testId(request))?.get(key);
  }

  /** Asks, unless it is being asked. */
  ask(request: Request, ask: WebhookAsk): void {
    const id = testId(request);
    const known = this.#known.get(id) ?? new Map<string, WebhookKnowledge>();
    this.#known.set(id, known);
    if (known.get(ask.key)?.kind === "asking" || this.#abort.signal.aborted) return;
    if (this.#waiting.length >= maxWaiting) {
      const answer: WebhookAnswer = { kind: "error", message: "too many webhooks wait to be asked" };
      known.set(ask.key, { kind: "answered", atMs: this.#options.clock.now(), stateVersion: ask.stateVersion, answer });
      return;
    }
    // Taken out first, so that what was asked longest ago stands first.
    known.delete(ask.key);
    known.set(ask.key, { kind: "asking" });
    const [oldest] = known.keys();
    if (known.size > maxKnown && oldest !== undefined) known.delete(oldest);
    this.#waiting.push({ request, ask, host: URL.canParse(ask.url) ? new URL(ask.url).host : "" });
    this.#startWaiting();
  }

  /** Forgets what is known of a test. */
  forget(request: Request): void {
    this.#known.delete(testId(request));
  }

  /** Breaks off what is being asked. */
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

  async #run({ request, ask, host }: Waiting): Promise<void> {
    this.#running++;
    this.#runningByHost.set(host, (this.#runningByHost.get(host) ?? 0) + 1);
    // Loading undici takes longer than everything else here, and most tests have no webhooks.
    this.#dispatcher ??= new (await import("undici")).Agent({ connectTimeout: 5_000 });
    const answer = await callWebhook(ask, this.#dispatcher, this.#abort.signal);
    this.#running--;
    const left = (this.#runningByHost.get(host) ?? 1) - 1;
    if (left === 0) this.#runningByHost.delete(host);
    else this.#runningByHost.set(host, left);
    if (this.#abort.signal.aborted) return;
    this.#startWaiting();
    const known = this.#known.get(testId(request));
    if (known === undefined) return;
    known.set(ask.key, { kind: "answered", atMs: this.#options.clock.now(), stateVersion: ask.stateVersion, answer });
    this.#options.wake(request);
  }
}

const testId = ({ namespace, name }: Request): string => `${namespace ?? ""}/${name}`;
