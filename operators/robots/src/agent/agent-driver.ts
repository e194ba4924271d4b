import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Clock } from "@keelson/api-machinery/time";
import { createBubblewrapDriver, createProcessDriver, type Driver, ExecutionError, type Program } from "@keelson/execution";

/** Options of {@link openAgentDriver}. */
export interface AgentDriverOptions {
  /** The agent's directory. */
  readonly dir: string;
  readonly clock: Clock;
  readonly random: () => number;
  /** Whether programs may have isolation. */
  readonly isIsolating: boolean;
  /** Runs the programs with images. Default: there are none. */
  readonly containers: Driver | undefined;
}

/**
 * Opens the drivers of an agent as one: programs with images run as containers, others with isolation in bubblewrap, all others as plain processes. Isolated programs of an
 * earlier policy are adopted too.
 *
 * **Errors**: `ExecutionError` with the code `Unsupported` if bubblewrap is required and not installed.
 */
export async function openAgentDriver({ dir, clock, random, isIsolating, containers }: AgentDriverOptions): Promise<Driver> {
  const plain = await createProcessDriver({ dir: join(dir, "programs"), clock, random });
  const isolated = join(dir, "isolated");
  try {
    const bubblewrap =
      isIsolating || existsSync(isolated) ? await createBubblewrapDriver({ dir: isolated, clock, random }) : undefined;
    return bubblewrap === undefined && containers === undefined ? plain : new AgentDriver({ plain, bubblewrap, containers });
  } catch (error) {
    await plain.close();
    throw error;
  }
}

interface Drivers {
  readonly plain: Driver;
  readonly bubblewrap: Driver | undefined;
  readonly containers: Driver | undefined;
}

class AgentDriver implements Driver {
  readonly name = "process";
  readonly #drivers: Drivers;

  constructor(drivers: Drivers) {
    this.#drivers = drivers;
  }

  start: Driver["start"] = async (spec) => {
    const { plain, bubblewrap, containers } = this.#drivers;
    const { isolation } = spec;
    const driver = isolation === undefined ? plain : isolation.image === undefined ? bubblewrap : containers;
    if (driver === undefined) throw new ExecutionError("Unsupported", "the robot has no driver with this isolation");
    return await driver.start(spec);
  };

  get(id: string): Program | undefined {
    return this.#all.map((driver) => driver.get(id)).find((program) => program !== undefined);
  }

  list(): readonly Program[] {
    return this.#all.flatMap((driver) => driver.list());
  }

  async close(): Promise<void> {
    await Promise.all(this.#all.map((driver) => driver.close()));
  }

  get #all(): readonly Driver[] {
    return Object.values(this.#drivers).filter((driver) => driver !== undefined);
  }
}
