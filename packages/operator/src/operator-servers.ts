import { sleep } from "@keelson/api-machinery/time";
import { type Client, isTransportError } from "@keelson/client";
import type { Manager } from "@keelson/controller";
import type { OperatorContext, RunningServer, ServerDefinition } from "./operator.ts";

/** How long the start of a server is retried. Shorter than a lease, because a lost connection must not cost the leadership. */
const maxRetryMs = 10_000;
const firstRetryMs = 250;
/** With jitter, no two attempts are more than 2 s apart. */
const maxRetryDelayMs = 1_000;

/** Starts the servers of an operator in order, and stops them in reverse order. */
export class OperatorServers {
  readonly descriptions: string[] = [];
  readonly endpoints: Record<string, string> = {};
  readonly #definitions: readonly ServerDefinition[];
  readonly #client: Client;
  readonly #context: OperatorContext;
  readonly #running: RunningServer[] = [];

  constructor(definitions: readonly ServerDefinition[], client: Client, context: OperatorContext) {
    this.#definitions = definitions;
    this.#client = client;
    this.#context = context;
  }

  /** Starts the servers that need leader election, or those that do not. A stop during a retry ends it without an error. */
  async start(manager: Manager, needsLeaderElection: boolean, stop?: AbortSignal): Promise<void> {
    for (const definition of this.#definitions) {
      if ((definition.needsLeaderElection ?? false) !== needsLeaderElection) continue;
      const server = await this.#startWithRetries(definition, manager, stop);
      if (server === undefined) return;
      this.#running.push(server);
      this.descriptions.push(server.description);
      Object.assign(this.endpoints, server.endpoints);
    }
  }

  async stop(): Promise<void> {
    for (let server = this.#running.pop(); server !== undefined; server = this.#running.pop()) {
      try {
        await server.stop();
      } catch (error) {
        this.#context.log.error({ err: error, server: server.description }, "server did not stop cleanly");
      }
    }
  }

  /** Retries only if the connection to the API was lost. */
  async #startWithRetries(
    definition: ServerDefinition,
    { cache, onChange }: Manager,
    stop: AbortSignal | undefined,
  ): Promise<RunningServer | undefined> {
    const { clock, random } = this.#context;
    const log = this.#context.log.child({ server: definition.name });
    const firstAt = clock.monotonic();
    for (let delayMs = firstRetryMs; ; delayMs = Math.min(delayMs * 2, maxRetryDelayMs)) {
      try {
        return await definition.start({ ...this.#context, client: this.#client, cache, onChange, log });
      } catch (error) {
        if (!isTransportError(error) || clock.monotonic() - firstAt >= maxRetryMs) throw error;
        log.warn({ err: error }, "could not start server; retrying");
        await sleep(clock, delayMs * (1 + random()), stop).catch(() => {});
        if (stop?.aborted) return undefined;
      }
    }
  }
}
