import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { Pod } from "@keelson/api-machinery/kinds";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Logger } from "@keelson/controller";
import { type AgentIsolation, reopenAgentDriver } from "../agent/run-agent.ts";
import { agentApp, agentLabels } from "../api/names.ts";

/** What a {@link FolderJanitor} is made from. */
export interface FolderJanitorOptions {
  /** Agents have a folder each in here, named by their Pod's uid. */
  readonly dir: string;
  /** What agents are given whose folder does not say. */
  readonly isolation: AgentIsolation;
  readonly client: Client;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Ends what agents left behind whose Pods are gone: programs, mounts and folders. */
export interface FolderJanitor {
  /** Looks once more; calls while it looks are one further look. */
  look(): void;
  stop(): Promise<void>;
}

/** After a look that failed, the next comes this much later, then after twice as long, and so on. */
const firstRetryMs = 500;
const longestRetryMs = 60_000;

const podUid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Makes a {@link FolderJanitor}. It asks the API itself, and ends nothing where that does not answer. */
export function createFolderJanitor(options: FolderJanitorOptions): FolderJanitor {
  const { dir, client, clock, log } = options;
  let running: Promise<void> | undefined;
  let isWanted = false;
  let isStopped = false;
  let retry: Timer | undefined;
  let retryMs = firstRetryMs;

  async function sweep(): Promise<void> {
    await mkdir(dir, { recursive: true, mode: 0o711 });
    const folders = (await readdir(dir)).filter((name) => podUid.test(name));
    if (folders.length === 0) return;
    // After the folders: a Pod is there before its folder is, so one that is not in this list is gone.
    const pods = await client.list(Pod, { labelSelector: `${agentLabels.app}=${agentApp}` });
    const uids = new Set(pods.items.map((pod) => pod.metadata.uid));
    for (const uid of folders) {
      if (isStopped) return;
      // Its agent may be on its way out still: then the folder is in use.
      if (!uids.has(uid)) await clear(join(dir, uid));
    }
  }

  async function clear(folder: string): Promise<void> {
    log.info({ folder }, "what an agent left behind is ended: its Pod is gone");
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
    while (isWanted && !isStopped) {
      isWanted = false;
      try {
        await sweep();
        retryMs = firstRetryMs;
      } catch (error) {
        log.warn({ err: error, dir, retryMs }, "what agents left behind could not all be ended; it is tried again");
        retry?.cancel();
        retry = clock.setTimer(retryMs, look, { background: true });
        retryMs = Math.min(retryMs * 2, longestRetryMs);
      }
    }
    running = undefined;
  }

  function look(): void {
    isWanted = true;
    running ??= run();
  }

  return {
    look,
    async stop() {
      isStopped = true;
      retry?.cancel();
      await running;
    },
  };
}
