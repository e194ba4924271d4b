import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Clock } from "@keelson/api-machinery/time";
import { createBubblewrapDriver, createProcessDriver, type Driver, type Program } from "@keelson/execution";

/** Options of {@link openAgentDriver}. */
export interface AgentDriverOptions {
  /** The agent's folder. */
  readonly dir: string;
  readonly clock: Clock;
  readonly random: () => number;
  /** Whether programs may have isolation. */
  readonly isIsolating: boolean;
}

/**
 * Opens the drivers of an agent as one: programs with isolation run in bubblewrap, all others as plain processes. Isolated programs of an
 * earlier policy are adopted too.
 *
 * **Errors**: `ExecutionError` with the code `Unsupported` if bubblewrap is required and not installed.
 */
export async function openAgentDriver({ dir, clock, random, isIsolating }: AgentDriverOptions): Promise<Driver> {
  const plain = await createProcessDriver({ dir: join(dir, "programs"), clock, random });
  const isolated = join(dir, "isolated");
  if (!isIsolating && !existsSync(isolated)) return plain;
  try {
    return new AgentDriver(plain, await createBubblewrapDriver({ dir: isolated, clock, random }));
  } catch (error) {
    await plain.close();
    throw error;
  }
}

class AgentDriver implements Driver {
  readonly name = "process";
  readonly #plain: Driver;
  readonly #isolated: Driver;

  constructor(plain: Driver, isolated: Driver) {
    this.#plain = plain;
    this.#isolated = isolated;
  }

  start: Driver["start"] = (spec) => (spec.isolation === undefined ? this.#plain : this.#isolated).start(spec);

  get(id: string): Program | undefined {
    return this.#plain.get(id) ?? this.#isolated.get(id);
  }

  list(): readonly Program[] {
    return [...this.#plain.list(), ...this.#isolated.list()];
  }

  async close(): Promise<void> {
    await Promise.all([this.#plain.close(), this.#isolated.close()]);
  }
}
