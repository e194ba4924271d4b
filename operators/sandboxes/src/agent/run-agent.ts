import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseJsonObject } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import {
  createBubblewrapDriver,
  createContainerdDriver,
  createProcessDriver,
  type Driver,
  ExecutionError,
  findRunsc,
  openUnpackedImages,
} from "@keelson/execution";
import { writeFileAtomic } from "@keelson/execution/files";
import { type AgentDriver, agentDrivers } from "./agent-drivers.ts";
import { startAgentServer } from "./agent-server.ts";
import { SandboxNetworks } from "../network/sandbox-networks.ts";
import { localImages } from "../sandbox/image-store.ts";
import { SandboxManager } from "../sandbox/sandbox-manager.ts";
import { isAlive, volumesOf } from "../sandbox/sandbox-program.ts";
import { AgentVolumes } from "../volumes/agent-volumes.ts";
import type { WarmCounts } from "../sandbox/warm-sandboxes.ts";

/** The isolation of sandboxes. */
export interface AgentIsolation {
  readonly driver: AgentDriver;
  /** Socket of `containerd`. Default: `/run/containerd/containerd.sock`. */
  readonly containerdSocket?: string;
}

/** Options of an agent. */
export interface AgentOptions extends AgentIsolation {
  readonly name: string;
  readonly node: string;
  /** Maximum number of sandboxes. */
  readonly capacity: number;
  /** The key shared with the operator. */
  readonly token: string;
  readonly bindAddress: string;
  /** 0 picks a free one. */
  readonly port: number;
  /** Directory of the sandboxes. One agent at a time. */
  readonly dir: string;
  /** Directory of the images. Default: below `dir`. */
  readonly imageDir?: string;
  /** Directory of the volumes, which agents of one machine may share. Default: below `dir`. */
  readonly volumeDir?: string;
  /** Maximum number of processes and threads per sandbox. Default 512. */
  readonly maxProcesses?: number;
  /** Default limits of a sandbox, as quantities. */
  readonly defaultLimits?: { readonly cpu?: string; readonly memory?: string };
  /** Slots to keep ready. Default: none. */
  readonly warm?: WarmCounts;
  readonly clock: Clock;
  readonly log: Logger;
  /** Called with the URL of its API once it listens. */
  readonly onReady: (url: string) => void;
}

/** Called with the first process of a container before its program starts. */
type OnCreated = (id: string, pid: number) => Promise<void>;

/** Directory of the driver, below an agent's own. */
const programsOf = (agentDir: string): string => join(agentDir, "programs");

/** Directory of the sandboxes' networks, below an agent's own. */
export const networksOf = (agentDir: string): string => join(agentDir, "networks");

const isolationFile = (agentDir: string): string => join(agentDir, "isolation.json");

/**
 * Opens the driver of an agent's sandboxes and records its isolation for the janitor. Throws `FolderInUse` while an agent uses the directory,
 * and `Unsupported` if the machine lacks what the driver needs.
 */
export async function openAgentDriver(
  isolation: AgentIsolation,
  agentDir: string,
  clock: Clock,
  onCreated?: OnCreated,
): Promise<Driver> {
  await mkdir(agentDir, { recursive: true, mode: 0o711 });
  await writeFileAtomic(isolationFile(agentDir), JSON.stringify(isolation), { durable: true });
  return openDriver(isolation, agentDir, clock, onCreated);
}

/** Opens an agent's directory with its recorded isolation, or else `otherwise`. Throws as {@link openAgentDriver} does. */
export async function reopenAgentDriver(
  agentDir: string,
  otherwise: AgentIsolation,
  clock: Clock,
  log: Logger,
): Promise<Driver> {
  const file = isolationFile(agentDir);
  const text = await readFile(file, "utf8").catch(() => undefined);
  const recorded = text === undefined ? otherwise : parseIsolation(text);
  if (recorded === undefined)
    log.warn({ file, ...otherwise }, "the record of an agent's isolation is damaged; using the default");
  return openDriver(recorded ?? otherwise, agentDir, clock);
}

function parseIsolation(text: string): AgentIsolation | undefined {
  const value = parseJsonObject(text);
  if (value === undefined) return undefined;
  const { driver, containerdSocket } = value;
  const known = agentDrivers.find((each) => each === driver);
  if (known === undefined) return undefined;
  return { driver: known, ...(typeof containerdSocket === "string" && { containerdSocket }) };
}

/** Sandboxes are not in their agent's cgroup, which the kubelet kills as a whole, so that they survive the agent. */
const cgroupParent = "/keelson/sandboxes";

function openDriver(
  { driver, containerdSocket }: AgentIsolation,
  agentDir: string,
  clock: Clock,
  onCreated?: OnCreated,
): Promise<Driver> {
  const options = { dir: programsOf(agentDir), clock, random: Math.random };
  const calls = "untrusted";
  if (driver === "bubblewrap") return createBubblewrapDriver({ ...options, cgroupParent, calls });
  if (driver === "process") return createProcessDriver({ ...options, cgroupParent });
  if (driver === "gvisor" && findRunsc() === undefined)
    return Promise.reject(new ExecutionError("Unsupported", "driver gvisor: runsc not found; install gVisor"));
  return createContainerdDriver({
    ...options,
    calls,
    ...(containerdSocket !== undefined && { socket: containerdSocket }),
    ...(onCreated !== undefined && { onCreated }),
  });
}

/** An agent's sandboxes, opened. */
export interface OpenedAgent {
  readonly driver: Driver;
  readonly manager: SandboxManager;
  /** Stops supervising; sandboxes keep running, and the next agent on the directory adopts them. */
  close(): Promise<void>;
}

/** Opens an agent's directory and adopts its sandboxes, with their networks and volumes. Throws as {@link openAgentDriver} does. */
export async function openAgent(options: Omit<AgentOptions, "token" | "port" | "onReady">): Promise<OpenedAgent> {
  const { dir, clock, log, driver: name, containerdSocket } = options;
  const isolation = { driver: name, ...(containerdSocket !== undefined && { containerdSocket }) };
  const networks = new SandboxNetworks({ dir: networksOf(dir), clock, log });
  let volumes: AgentVolumes | undefined;
  const driver = await openAgentDriver(isolation, dir, clock, async (id, pid) => {
    await networks.connect(id, pid);
    await volumes?.giveContainer(id, pid);
  });
  const close = async (): Promise<void> => {
    await networks.close();
    await volumes?.close();
    await driver.close();
  };
  try {
    const alive = driver.list().filter(isAlive);
    await networks.adopt(new Set(alive.map(({ id }) => id)));
    volumes = await AgentVolumes.open(
      { dir: options.volumeDir ?? join(dir, "volume-images"), agentDir: dir, driver: driver.name, log },
      new Map(alive.map((program) => [program.id, volumesOf(program)])),
    );
    const imageDir = options.imageDir ?? join(dir, "images");
    const manager = new SandboxManager({
      agentId: options.name,
      nodeName: options.node,
      capacity: options.capacity,
      ...{ driver, networks, volumes, clock, log },
      ...(name === "gvisor" && { runtime: "runsc" }),
      images: localImages(await openUnpackedImages(imageDir)),
      ...(options.warm !== undefined && { warm: { ...options.warm, imageDir } }),
      address: options.bindAddress,
      ...(options.maxProcesses !== undefined && { maxProcesses: options.maxProcesses }),
      ...(options.defaultLimits !== undefined && { defaultLimits: options.defaultLimits }),
      expiryFile: join(dir, "expiries.json"),
    });
    return { driver, manager, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/**
 * Runs an agent until `signal` aborts, then stops every sandbox gracefully while the API keeps reporting. The next agent on the same directory
 * adopts the sandboxes of a killed one.
 */
export async function runAgent(options: AgentOptions, signal: AbortSignal): Promise<void> {
  const { token, port, bindAddress, clock, log } = options;
  const { manager, close } = await openAgent(options);
  try {
    const server = await startAgentServer({ manager, token, port, bindAddress, clock, log });
    options.onReady(server.url);
    if (!signal.aborted)
      await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
    await manager.shutDown();
    await server.close();
  } finally {
    await close();
  }
}
