import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { Pod } from "@keelson/api-machinery/kinds";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Logger } from "@keelson/controller";
import { type AgentIsolation, reopenAgentDriver } from "../agent/run-agent.ts";
import { agentApp, agentLabels } from "../api/names.ts";

/** What a {@link AgentFolderJanitor} is made from. */
export interface FolderJanitorOptions {
  /** Parent of the agents' folders, which are named after their Pods' uids. */
  readonly dir: string;
  /** Isolation of agents whose folder does not record it. */
  readonly isolation: AgentIsolation;
  readonly client: Client;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Cleans up after agents whose Pods were deleted: programs, mounts and folders. */
export interface AgentFolderJanitor {
  /** Triggers a sweep; calls during a sweep trigger one more. */
  trigger(): void;
  stop(): Promise<void>;
}

/** Delay before the retry of a failed sweep; doubles with each failure. */
const firstRetryMs = 500;
const maxRetryMs = 60_000;

const podUid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Creates an {@link AgentFolderJanitor}. It queries the API directly and removes nothing if the API does not answer. */
export function createAgentFolderJanitor(options: FolderJanitorOptions): AgentFolderJanitor {
  const { dir, client, clock, log } = options;
  let running: Promise<void> | undefined;
  let isRequested = false;
  let isStopped = false;
  let retry: Timer | undefined;
  let retryMs = firstRetryMs;

  async function sweep(): Promise<void> {
    await mkdir(dir, { recursive: true, mode: 0o711 });
    const folders = (await readdir(dir)).filter((name) => podUid.test(name));
    if (folders.length === 0) return;
    // Listed after the folders: a Pod exists before its folder, so a Pod missing from this list was deleted.
    const pods = await client.list(Pod, { labelSelector: `${agentLabels.app}=${agentApp}` });
    const uids = new Set(pods.items.map((pod) => pod.metadata.uid));
    for (const uid of folders) {
      if (isStopped) return;
      // Fails with FolderInUse while the agent is still shutting down.
      if (!uids.has(uid)) await clear(join(dir, uid));
    }
  }

  async function clear(folder: string): Promise<void> {
    log.info({ folder }, "cleaning up after an agent whose Pod was deleted");
    const driver = await reopenAgentDriver(folder, options.isolation, clock);
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
    await rm(folder, { recursive: true, force: true });
  }

  async function run(): Promise<void> {
    while (isRequested && !isStopped) {
      isRequested = false;
      try {
        await sweep();
        retryMs = firstRetryMs;
      } catch (error) {
        log.warn({ err: error, dir, retryMs }, "could not clean up after agents; retrying");
        retry?.cancel();
        retry = clock.setTimer(retryMs, trigger, { background: true });
        retryMs = Math.min(retryMs * 2, maxRetryMs);
      }
    }
    running = undefined;
  }

  function trigger(): void {
    isRequested = true;
    running ??= run();
  }

  return {
    trigger,
    async stop() {
      isStopped = true;
      retry?.cancel();
      await running;
    },
  };
}
