import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import {
  createBubblewrapDriver,
  createContainerdDriver,
  createProcessDriver,
  type Driver,
  openUnpackedImages,
} from "@keelson/execution";
import { startAgentServer } from "./agent-server.ts";
import { localImages } from "../sandbox/image-store.ts";
import { createSandboxManager } from "../sandbox/sandbox-manager.ts";

/** What isolates the sandboxes of an agent. `process`: nothing does. */
export const agentDrivers = ["bubblewrap", "containerd", "process"] as const;
export type AgentDriver = (typeof agentDrivers)[number];

/** What isolates sandboxes, and where that is. */
export interface AgentIsolation {
  readonly driver: AgentDriver;
  /** Socket of `containerd`. Default: `/run/containerd/containerd.sock`. */
  readonly containerdSocket?: string;
}

/** What an agent runs with. */
export interface AgentOptions extends AgentIsolation {
  readonly name: string;
  readonly node: string;
  /** Sandboxes that it takes at once. */
  readonly capacity: number;
  /** Callers of its API need it. */
  readonly token: string;
  readonly bindAddress: string;
  /** 0 picks a free one. */
  readonly port: number;
  /** Sandboxes are kept here. One agent at a time. */
  readonly dir: string;
  /** Images are here. Default: below `dir`. */
  readonly imageDir?: string;
  /** Processes and threads that one sandbox may have. Default 1024. */
  readonly maxProcesses?: number;
  /** What a sandbox gets that asks for nothing else: quantities. Default: no limit. */
  readonly defaultLimits?: { readonly cpu?: string; readonly memory?: string };
  readonly clock: Clock;
  readonly log: Logger;
  /** Called with the address of its API when it listens. */
  readonly onReady: (url: string) => void;
}

/** Folder below an agent's own in which its driver keeps sandboxes. */
export const programsOf = (agentDir: string): string => join(agentDir, "programs");

const isolationFile = (agentDir: string): string => join(agentDir, "isolation.json");

/**
 * Opens the driver of an agent's sandboxes and notes which it is, for those who end what a dead agent left. Throws `FolderInUse` while
 * an agent has it, and `Unsupported` where the machine lacks what the driver needs.
 */
export async function openAgentDriver(isolation: AgentIsolation, agentDir: string, clock: Clock): Promise<Driver> {
  await mkdir(agentDir, { recursive: true, mode: 0o711 });
  const noted = isolationFile(agentDir);
  await writeFile(`${noted}.new`, JSON.stringify(isolation), { mode: 0o600 });
  await rename(`${noted}.new`, noted);
  return openDriver(isolation, agentDir, clock);
}

/** Opens the driver that an agent's folder was opened with last; `otherwise` where none is noted. Throws as {@link openAgentDriver} does. */
export async function reopenAgentDriver(agentDir: string, otherwise: AgentIsolation, clock: Clock): Promise<Driver> {
  const text = await readFile(isolationFile(agentDir), "utf8").catch(() => "");
  return openDriver(text === "" ? otherwise : (JSON.parse(text) as AgentIsolation), agentDir, clock);
}

/** Sandboxes are not in the cgroup of their agent, which its node kills as a whole when the agent dies: they run on. */
const cgroupParent = "/keelson/sandboxes";

function openDriver({ driver, containerdSocket }: AgentIsolation, agentDir: string, clock: Clock): Promise<Driver> {
  const options = { dir: programsOf(agentDir), clock, random: Math.random };
  if (driver === "bubblewrap") return createBubblewrapDriver({ ...options, cgroupParent });
  if (driver === "process") return createProcessDriver({ ...options, cgroupParent });
  return createContainerdDriver({ ...options, ...(containerdSocket !== undefined && { socket: containerdSocket }) });
}

/**
 * Runs an agent until `signal` fires; then every sandbox is stopped, in order and with its grace, and the agent's API says so
 * while it lasts. What an agent that was killed left running is taken over by the next one on the same folder.
 */
export async function runAgent(options: AgentOptions, signal: AbortSignal): Promise<void> {
  const { dir, clock, log } = options;
  const { driver: name, containerdSocket } = options;
  const isolation = { driver: name, ...(containerdSocket !== undefined && { containerdSocket }) };
  const driver = await openAgentDriver(isolation, dir, clock);
  try {
    const manager = createSandboxManager({
      agentId: options.name,
      nodeName: options.node,
      capacity: options.capacity,
      driver,
      images: localImages(await openUnpackedImages(options.imageDir ?? join(dir, "images"))),
      address: options.bindAddress,
      ...(options.maxProcesses !== undefined && { maxProcesses: options.maxProcesses }),
      ...(options.defaultLimits !== undefined && { defaultLimits: options.defaultLimits }),
      clock,
      log,
      expiryFile: join(dir, "expiries.json"),
    });
    const { token, port, bindAddress } = options;
    const server = await startAgentServer({ manager, token, port, bindAddress, clock, log });
    options.onReady(server.url);
    if (!signal.aborted)
      await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
    await manager.shutDown();
    await server.close();
  } finally {
    await driver.close();
  }
}
