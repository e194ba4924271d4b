import { jsonEquals } from "@keelson/api-machinery";
import type { Logger } from "@keelson/controller";
import type { Program } from "@keelson/execution";
import { sandboxIdPattern } from "../api/names.ts";
import { VolumeError } from "../volumes/volume-error.ts";
import { SandboxUsages } from "./sandbox-usage.ts";
import { SandboxStarter, type SandboxStarterOptions } from "./sandbox-starter.ts";
import { Lifetimes } from "./lifetimes.ts";
import { PortRelays } from "./port-relay.ts";
import { type WarmCounts, WarmSandboxes } from "./warm-sandboxes.ts";
import type { ImageStore, ReadyImage } from "./image-store.ts";
import type { AgentSandbox, AgentStatus, CreateAnswer, SandboxStatus, VolumeChange } from "../protocol/protocol.ts";
import { createdAnswer, hashOf, isAlive, portsOf, statusOf } from "./sandbox-program.ts";

/** Options of a {@link SandboxManager}. */
export interface SandboxManagerOptions extends SandboxStarterOptions {
  readonly agentId: string;
  readonly nodeName: string;
  readonly capacity: number;
  readonly images: ImageStore;
  readonly log: Logger;
  /** File with changed expiry times. */
  readonly expiryFile: string;
  /** Slots to keep ready, and the directory of the unpacked images. Default: none. */
  readonly warm?: WarmCounts & { readonly imageDir: string };
}

/** Number of deleted ids that are remembered, so that a delayed create does not resurrect one. */
const maxTombstones = 4096;

/**
 * The sandboxes of one agent: the authority on its slots, ports and ids.
 *
 * **Guarantees**: a create is admitted or rejected before it has side effects, and is idempotent; a delete always ends with the
 * sandbox's absence, even if it never existed; a deleted id never runs again in this process; sandboxes that outlive an agent are
 * adopted by the next one on the same driver.
 */
export class SandboxManager {
  readonly usages: SandboxUsages;
  readonly #options: SandboxManagerOptions;
  readonly #listeners = new Set<() => void>();
  /** Creates in progress, by sandbox id. */
  readonly #creating = new Map<string, { readonly sandbox: AgentSandbox; readonly answer: Promise<CreateAnswer> }>();
  readonly #deleting = new Map<string, Promise<void>>();
  readonly #tombstones = new Set<string>();
  readonly #starter: SandboxStarter;
  readonly #lifetimes: Lifetimes;
  readonly #relays: PortRelays;
  readonly #warm: WarmSandboxes | undefined;
  #isShuttingDown = false;

  /** Adopts the driver's sandboxes. */
  constructor(options: SandboxManagerOptions) {
    const { driver, clock, log, expiryFile, warm, images } = options;
    this.#options = options;
    this.usages = new SandboxUsages(driver, clock);
    this.#starter = new SandboxStarter(options);
    this.#lifetimes = new Lifetimes({ driver, clock, log, expiryFile, onChange: () => this.#notify() });
    this.#relays = new PortRelays({
      ...{ address: options.address, clock, log, begin: (sandboxId: string) => this.#lifetimes.use(sandboxId) },
      // Without isolation a sandbox listens on the agent's address itself.
      isRelayed: driver.name !== "process",
      onListening: () => this.#notify(),
    });
    for (const program of driver.list()) {
      this.#lifetimes.follow(program);
      this.#relays.open(program);
      void program.exited().then(() => this.#starter.release(program));
    }
    options.networks?.onDenied(() => this.#notify());
    if (warm !== undefined) {
      this.#warm = new WarmSandboxes({ program: options, images, counts: warm, imageDir: warm.imageDir });
      driver.warm?.onChange(() => this.#notify());
    }
  }

  async create(sandbox: AgentSandbox): Promise<CreateAnswer> {
    const { sandboxId } = sandbox;
    const rejection = (message: string): CreateAnswer => ({ success: false, rejected: true, message, sandboxId });
    const problem = this.#findFence(sandboxId);
    if (problem !== undefined) return rejection(problem);
    const existing = this.#findExisting(sandbox);
    if (existing === "different") return rejection(`sandbox ${sandboxId} already exists with a different spec`);
    if (existing !== undefined) return existing;
    const shortage = this.#findShortage(sandbox);
    if (shortage !== undefined) return rejection(shortage);
    const { images } = this.#options;
    const image = images.find(sandbox.image);
    if (image === undefined) {
      const message = `image ${sandbox.image} not found on this machine; available: ${images.list().join(", ")}`;
      return { success: false, message, sandboxId };
    }
    const unsupported = this.#starter.findNetworkProblem(sandbox);
    if (unsupported !== undefined) return { success: false, message: unsupported, sandboxId };
    const answer = this.#start(sandbox, image).finally(() => {
      this.#creating.delete(sandboxId);
      this.#notify();
    });
    this.#creating.set(sandboxId, { sandbox, answer });
    this.#notify();
    return answer;
  }

  /** Deletes a sandbox. Settles when it is removed. */
  delete(sandboxId: string): Promise<void> {
    const present = this.#deleting.get(sandboxId);
    if (present !== undefined) return present;
    this.#bury(sandboxId);
    const deletion = this.#remove(sandboxId).finally(() => {
      this.#deleting.delete(sandboxId);
      this.#notify();
    });
    this.#deleting.set(sandboxId, deletion);
    return deletion;
  }

  /** Sets the expiry of a sandbox; null: never. False if it does not run on this agent. */
  async expire(sandboxId: string, expiresAtMs: number | null): Promise<boolean> {
    return !this.#deleting.has(sandboxId) && this.#lifetimes.expire(sandboxId, expiresAtMs);
  }

  /** Freezes a sandbox. False if it does not run on this agent. **Errors**: `ExecutionError` `Unsupported` without a freezer. */
  async pause(sandboxId: string): Promise<boolean> {
    return !this.#deleting.has(sandboxId) && this.#lifetimes.pause(sandboxId);
  }

  /** Lets a paused sandbox continue, with this expiry. False if it does not run on this agent. */
  async resume(sandboxId: string, expiresAtMs: number | null): Promise<boolean> {
    return !this.#deleting.has(sandboxId) && this.#lifetimes.resume(sandboxId, expiresAtMs);
  }

  /** Registers a use of a sandbox, which is not idle until the returned function is called. */
  use(sandboxId: string): () => void {
    return this.#lifetimes.use(sandboxId);
  }

  status(): AgentStatus {
    const { driver, agentId, nodeName, capacity, images, clock, networks } = this.#options;
    const sandboxStatuses = driver
      .list()
      .filter((program) => sandboxIdPattern.test(program.id))
      .map((program): SandboxStatus => {
        const denied = networks?.denied(program.id);
        return {
          ...statusOf(program, this.#deleting.has(program.id), clock),
          ...this.#lifetimes.statusOf(program),
          openPorts: this.#relays.openPorts(program),
          ...(denied !== undefined && { denied }),
        };
      });
    const warm = this.#warm?.status();
    const { volumes } = this.#options;
    const slots = {
      ...(volumes !== undefined && { volumes: volumes.ids, volumeSizes: volumes.sizes }),
      capacity,
      allocated: this.#occupied().size,
      ...(warm && { warm }),
    };
    return { agentId, nodeName, ...slots, images: images.list(), sandboxStatuses };
  }

  /** Creates, resizes or deletes a volume. **Errors**: `VolumeError`. */
  async changeVolume(change: VolumeChange): Promise<void> {
    const { volumes } = this.#options;
    if (volumes === undefined) throw new VolumeError("Unsupported", "this agent has no volumes");
    if (change.kind === "create") await volumes.create(change.volumeId, change.sizeBytes);
    else if (change.kind === "resize") await volumes.resize(change.volumeId, change.sizeBytes);
    else await volumes.delete(change.volumeId);
    this.#notify();
  }

  /** The program of a sandbox on this agent. */
  program(sandboxId: string): Program | undefined {
    return sandboxIdPattern.test(sandboxId) ? this.#options.driver.get(sandboxId) : undefined;
  }

  /** The address on which an exposed port leads to a program; undefined while it does not. */
  portAddress(program: Program, port: number): string | undefined {
    return this.#relays.openPorts(program).includes(port) ? this.#options.address : undefined;
  }

  /** Calls `listener` after every change of the status. Returns a function that unsubscribes. */
  onChange(listener: () => void): () => void {
    if (this.#listeners.size === 0) for (const program of this.#options.driver.list()) this.#follow(program);
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Stops enforcing expiries and relaying ports; sandboxes keep running. */
  detach(): void {
    this.#lifetimes.stop();
    this.#relays.close();
  }

  /** Rejects new sandboxes and stops all running ones; settles when none runs. */
  async shutDown(): Promise<void> {
    this.#isShuttingDown = true;
    this.detach();
    await Promise.allSettled([...this.#creating.values()].map(({ answer }) => answer));
    await Promise.all(this.#options.driver.list().map((program) => program.stop()));
  }

  #notify(): void {
    for (const listener of this.#listeners) listener();
  }

  /** Why no sandbox with this id may be created. */
  #findFence(sandboxId: string): string | undefined {
    if (this.#isShuttingDown) return `agent ${this.#options.agentId} is shutting down`;
    if (this.#tombstones.has(sandboxId) || this.#deleting.has(sandboxId)) return `sandbox ${sandboxId} was deleted`;
    return undefined;
  }

  /** The answer of an earlier create of the same sandbox. */
  #findExisting(sandbox: AgentSandbox): Promise<CreateAnswer> | CreateAnswer | "different" | undefined {
    const { driver, clock } = this.#options;
    const creating = this.#creating.get(sandbox.sandboxId);
    if (creating !== undefined) return jsonEquals(creating.sandbox, sandbox) ? creating.answer : "different";
    const present = driver.get(sandbox.sandboxId);
    if (present === undefined) return undefined;
    // The fast path does not know the claim's uid yet; the controller does when it repeats the create.
    return present.spec.metadata?.hash === hashOf(sandbox) ? createdAnswer(present, clock) : "different";
  }

  /** Why the agent has no room for a sandbox. */
  #findShortage(sandbox: AgentSandbox): string | undefined {
    const { sandboxId, ports = [] } = sandbox;
    const { agentId, capacity } = this.#options;
    if (this.#occupied().size >= capacity) return `agent ${agentId} is full: ${capacity} of ${capacity} slots in use`;
    const port = this.#findTakenPort(ports, sandboxId);
    if (port !== undefined) return `port ${port} is in use on agent ${agentId}`;
    return this.#starter.findVolumeProblem(sandbox);
  }

  #findTakenPort(ports: readonly number[], except: string): number | undefined {
    const used = new Set<number>();
    for (const program of this.#options.driver.list())
      if (program.id !== except && isAlive(program)) for (const port of portsOf(program)) used.add(port);
    for (const [id, { sandbox }] of this.#creating) if (id !== except) for (const port of sandbox.ports ?? []) used.add(port);
    return ports.find((port) => used.has(port));
  }

  /** Ids that occupy a slot; a terminated sandbox keeps its log and exit code but no slot. */
  #occupied(): ReadonlySet<string> {
    const alive = this.#options.driver.list().flatMap((program) => (isAlive(program) ? [program.id] : []));
    return new Set([...alive, ...this.#creating.keys()]);
  }

  async #start(sandbox: AgentSandbox, image: ReadyImage): Promise<CreateAnswer> {
    const { clock } = this.#options;
    const { sandboxId } = sandbox;
    const began = clock.monotonic();
    this.#warm?.use(image);
    let program: Program;
    try {
      program = await this.#starter.start(sandbox, image);
    } catch (error) {
      if (error instanceof VolumeError)
        return { success: false, rejected: error.code === "InUse", message: error.message, sandboxId };
      throw error;
    }
    const startMs = clock.monotonic() - began;
    this.#follow(program);
    this.#relays.open(program);
    this.#lifetimes.follow(program);
    if (program.state.kind === "exited" && program.state.reason === "StartFailed") {
      return { success: false, message: program.state.message, sandboxId };
    }
    return { ...createdAnswer(program, clock), startMs, start: program.startKind };
  }

  #follow(program: Program): void {
    void program.exited().then(async () => {
      await this.#starter.release(program);
      this.#notify();
    });
  }

  /** Remembers that this id was deleted. A set iterates in insertion order, oldest first. */
  #bury(sandboxId: string): void {
    this.#tombstones.add(sandboxId);
    for (const oldest of this.#tombstones) {
      if (this.#tombstones.size <= maxTombstones) break;
      this.#tombstones.delete(oldest);
    }
  }

  async #remove(sandboxId: string): Promise<void> {
    await this.#creating.get(sandboxId)?.answer.catch(() => {});
    const program = this.#options.driver.get(sandboxId);
    if (program === undefined) return;
    this.#notify();
    await program.stop({ discard: true });
    await program.remove();
    await this.#lifetimes.forget(sandboxId);
    await this.#options.networks?.forget(sandboxId);
  }
}
