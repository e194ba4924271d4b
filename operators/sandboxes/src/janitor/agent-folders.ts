import { mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import { Pod } from "@keelson/api-machinery/kinds";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Logger } from "@keelson/controller";
import { removeTree } from "@keelson/execution/files";
import { type AgentIsolation, networksOf, reopenAgentDriver } from "../agent/run-agent.ts";
import { agentApp, agentLabels } from "../api/names.ts";
import { unmountVolumes } from "../volumes/volume-host.ts";
import { removeNetworks } from "../network/sandbox-networks.ts";

/** Options of an {@link AgentFolderJanitor}. */
export interface AgentFolderJanitorOptions {
  /** Parent of the agents' directories, which are named after their Pods' uids. */
  readonly dir: string;
  /** Isolation of agents whose directory does not record it. */
  readonly isolation: AgentIsolation;
  readonly client: Client;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Delay before the retry of a failed sweep; doubles with each failure. */
const firstRetryMs = 500;
const maxRetryMs = 60_000;

const podUid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/**
 * Cleans up after agents whose Pods were deleted: programs, mounts and directories. It queries the API directly and removes nothing if the
 * API does not respond.
 */
export class AgentFolderJanitor {
  readonly #options: AgentFolderJanitorOptions;
  #running: Promise<void> | undefined;
  #isRequested = false;
  #isStopped = false;
  #retry: Timer | undefined;
  #retryMs = firstRetryMs;

  constructor(options: AgentFolderJanitorOptions) {
    this.#options = options;
  }

  /** Triggers a sweep; calls during a sweep trigger one more. */
  trigger(): void {
    this.#isRequested = true;
    this.#running ??= this.#run();
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#retry?.cancel();
    await this.#running;
  }

  async #run(): Promise<void> {
    while (this.#isRequested && !this.#isStopped) {
      this.#isRequested = false;
      try {
        await this.#sweep();
        this.#retryMs = firstRetryMs;
      } catch (error) {
        this.#retryLater(error);
      }
    }
    this.#running = undefined;
  }

  #retryLater(error: unknown): void {
    const { clock, log, dir } = this.#options;
    log.warn({ err: error, dir, retryMs: this.#retryMs }, "could not clean up after agents; retrying");
    this.#retry?.cancel();
    this.#retry = clock.setTimer(this.#retryMs, () => this.trigger(), { background: true });
    this.#retryMs = Math.min(this.#retryMs * 2, maxRetryMs);
  }

  async #sweep(): Promise<void> {
    const { client, dir } = this.#options;
    await mkdir(dir, { recursive: true, mode: 0o711 });
    const folders = (await readdir(dir)).filter((name) => podUid.test(name));
    if (folders.length === 0) return;
    // Listed after the directories: a Pod exists before its directory, so a Pod missing from this list was deleted.
    const pods = await client.list(Pod, { labelSelector: `${agentLabels.app}=${agentApp}` });
    const uids = new Set(pods.items.map((pod) => pod.metadata.uid));
    for (const uid of folders) {
      if (this.#isStopped) return;
      // Fails with FolderInUse while the agent is still shutting down.
      if (!uids.has(uid)) await this.#remove(join(dir, uid));
    }
  }

  async #remove(folder: string): Promise<void> {
    const { isolation, clock, log } = this.#options;
    log.info({ folder }, "cleaning up after an agent whose Pod was deleted");
    const driver = await reopenAgentDriver(folder, isolation, clock, log);
    try {
      await Promise.all(
        driver.list().map(async (program) => {
          await program.stop();
          await program.remove();
        }),
      );
    } finally {
      await driver.close();
    }
    await removeNetworks(networksOf(folder), log);
    await unmountVolumes(folder);
    await removeTree(folder);
  }
}
