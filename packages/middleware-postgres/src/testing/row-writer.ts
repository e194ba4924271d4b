import { type Clock, sleep } from "@keelson/api-machinery/time";
import type { Login } from "../server/peer-connection.ts";
import { PostgresConnection, PostgresError } from "../server/postgres-client.ts";

/** A client that inserts rows continuously and follows the primary. */
export class RowWriter {
  readonly #hosts: () => Promise<readonly string[]>;
  readonly #login: Login;
  readonly #clock: Clock;
  readonly #acknowledged: string[] = [];
  readonly #work: Promise<void>;
  #isStopped = false;
  #last: number | undefined;
  #maxGapMs = 0;

  /** `hosts` resolves to the current addresses of the servers. */
  constructor(hosts: () => Promise<readonly string[]>, login: Login, clock: Clock) {
    this.#hosts = hosts;
    this.#login = login;
    this.#clock = clock;
    this.#work = this.#write();
  }

  /** Number of acknowledged rows. */
  get count(): number {
    return this.#acknowledged.length;
  }

  /** Stops writing. Resolves to the acknowledged rows, and to the longest time between two of them. */
  async stop(): Promise<{ readonly acknowledged: readonly string[]; readonly maxGapMs: number }> {
    this.#isStopped = true;
    await this.#work;
    return { acknowledged: this.#acknowledged, maxGapMs: this.#maxGapMs };
  }

  async #write(): Promise<void> {
    let number = 0;
    while (!this.#isStopped) {
      for (const host of await this.#hosts()) {
        try {
          await using connection = await PostgresConnection.open({ host, port: 5_432, ...this.#login });
          // As a client would: commits wait for synchronous replicas.
          await connection.run("SET synchronous_commit = on");
          while (!this.#isStopped) {
            // A row that was not acknowledged may or may not be stored, so every attempt inserts another one.
            const row = `row-${number++}`;
            await connection.run("INSERT INTO public.rows VALUES ($1)", [row]);
            this.#acknowledged.push(row);
            const now = this.#clock.monotonic();
            if (this.#last !== undefined) this.#maxGapMs = Math.max(this.#maxGapMs, now - this.#last);
            this.#last = now;
            if (number % 10 === 0) await sleep(this.#clock, 2);
          }
        } catch (error) {
          if (!(error instanceof PostgresError)) throw error;
        }
      }
      await sleep(this.#clock, 5);
    }
  }
}
