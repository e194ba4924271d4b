import { type Clock, sleep } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import { createDeferred } from "@keelson/api-machinery/deferred";
import { statusHeartbeatMs } from "../agent/status-stream.ts";
import type { AgentStatus } from "../protocol/protocol.ts";
import type { AgentClient } from "./agent-client.ts";
import type { AgentPod } from "./agent-pod.ts";

/** Options of an {@link AgentStream}. */
export interface AgentStreamOptions {
  readonly agent: AgentPod;
  /** Creates the client. Called until it succeeds. */
  readonly connect: (agent: AgentPod) => Promise<AgentClient>;
  readonly clock: Clock;
  readonly log: Logger;
  /** Called for every status, after {@link AgentStream.status} has changed. */
  readonly onStatus: (stream: AgentStream, client: AgentClient, before: AgentStatus | undefined) => void;
  /** Called when an agent that has reported is lost. */
  readonly onLost: (stream: AgentStream) => void;
}

/** An agent that does not report for this long, three heartbeats, is lost. */
const agentTimeoutMs = 3 * statusHeartbeatMs;
const firstPauseMs = 50;
const maxPauseMs = 2_000;

/** The stream of one agent's statuses, reopened with backoff until it is stopped. */
export class AgentStream {
  /** The agent's Pod. The monitor updates it. */
  agent: AgentPod;
  readonly #options: AgentStreamOptions;
  readonly #stopping = new AbortController();
  readonly #attempted = createDeferred<void>();
  readonly #done: Promise<void>;
  #client: AgentClient | undefined;
  #status: AgentStatus | undefined;
  #pauseMs = firstPauseMs;

  constructor(options: AgentStreamOptions) {
    this.#options = options;
    this.agent = options.agent;
    this.#done = this.#follow();
  }

  /** The last status; `undefined` if the agent is lost or has not reported. */
  get status(): AgentStatus | undefined {
    return this.#status;
  }

  /** The agent's client, once its key is known. */
  get client(): AgentClient | undefined {
    return this.#client;
  }

  /** Resolves after the first status or the first failed attempt. */
  get attempted(): Promise<void> {
    return this.#attempted.promise;
  }

  /** Closes the stream. `onLost` is not called. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#done;
  }

  async #follow(): Promise<void> {
    const { clock, log } = this.#options;
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      try {
        await this.#attempt(signal);
      } catch (error) {
        if (!signal.aborted) log.debug({ err: error, agent: this.agent.name }, "lost the connection to an agent; retrying");
      }
      this.#attempted.resolve();
      if (signal.aborted) break;
      this.#lose();
      await sleep(clock, this.#pauseMs, signal).catch(() => {});
      this.#pauseMs = Math.min(this.#pauseMs * 2, maxPauseMs);
    }
  }

  /** Reads statuses until the stream ends or the agent stops reporting. */
  async #attempt(signal: AbortSignal): Promise<void> {
    const { clock, connect } = this.#options;
    const timeout = new AbortController();
    const abort = (): void => timeout.abort();
    signal.addEventListener("abort", abort, { once: true });
    let timer = clock.setTimer(agentTimeoutMs, abort, { background: true });
    try {
      const client = (this.#client ??= await connect(this.agent));
      for await (const status of client.watch(timeout.signal)) {
        timer.cancel();
        timer = clock.setTimer(agentTimeoutMs, abort, { background: true });
        this.#pauseMs = firstPauseMs;
        this.#report(client, status);
      }
    } finally {
      timer.cancel();
      signal.removeEventListener("abort", abort);
    }
  }

  #report(client: AgentClient, status: AgentStatus): void {
    const before = this.#status;
    this.#status = status;
    this.#attempted.resolve();
    this.#options.onStatus(this, client, before);
  }

  #lose(): void {
    if (this.#status === undefined) return;
    this.#status = undefined;
    this.#options.onLost(this);
  }
}
