import type { Clock } from "@keelson/api-machinery/time";
import { PostgresConnection, PostgresError, type PostgresAddress } from "./postgres-client.ts";

const intervalMs = 2_000;
/** Unanswered sessions in a row after which a server counts as silent. On a busy machine a single one may take longer than its timeout. */
const maxUnanswered = 2;

/**
 * Opens a new session every 2 s while it is asked. The agent's own session is served by its own process, so it says nothing about a
 * server that accepts connections and leaves them unanswered.
 */
export class SessionProbe {
  readonly #clock: Clock;
  readonly #open: () => Promise<void>;
  #failure: PostgresError | undefined;
  #unanswered = 0;
  #isOpening = false;
  #dueAt = 0;

  /** `open` rejects with a `PostgresError` if the server does not respond. */
  constructor(clock: Clock, open: () => Promise<void>) {
    this.#clock = clock;
    this.#open = open;
  }

  /** Rejects with a `PostgresError` if the last two sessions were not answered. Starts the next one if it is due, without waiting for it. */
  async require(): Promise<void> {
    const now = this.#clock.monotonic();
    if (!this.#isOpening && now >= this.#dueAt) {
      this.#isOpening = true;
      this.#dueAt = now + intervalMs;
      void this.#probe();
    }
    if (this.#failure !== undefined) throw this.#failure;
    await Promise.resolve();
  }

  /** Forgets a failure: another server was started. */
  reset(): void {
    this.#failure = undefined;
    this.#unanswered = 0;
    this.#dueAt = this.#clock.monotonic() + intervalMs;
  }

  async #probe(): Promise<void> {
    try {
      await this.#open();
      this.#record(undefined);
    } catch (error) {
      // A server that answers with an error, such as too many clients, is alive.
      const isSilent = error instanceof PostgresError && error.code === "Unreachable" && error.sqlState === undefined;
      this.#record(isSilent ? error : undefined);
    } finally {
      this.#isOpening = false;
    }
  }

  #record(error: PostgresError | undefined): void {
    this.#unanswered = error === undefined ? 0 : this.#unanswered + 1;
    this.#failure = this.#unanswered < maxUnanswered ? undefined : error;
  }
}

/** Opens and closes a session. */
export async function openSession(address: PostgresAddress): Promise<void> {
  const connection = await PostgresConnection.open({ ...address, timeoutMs: 3_000 });
  await connection.close();
}
