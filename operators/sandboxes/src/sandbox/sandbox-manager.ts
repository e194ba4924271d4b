import { jsonEquals } from "@keelson/api-machinery";
import type { Logger } from "@keelson/controller";
import type { Program } from "@keelson/execution";
import { sandboxIdPattern } from "../api/names.ts";
import { openExpiries } from "./expiries.ts";
import { PortRelays } from "./port-relay.ts";
import type { ImageStore, ReadyImage } from "./image-store.ts";
import type { AgentSandbox, AgentStatus, CreateAnswer, SandboxStatus } from "../protocol/protocol.ts";
import {
  createdAnswer,
  hashOf,
  isAlive,
  requestedExpiry,
  portsOf,
  toProgramSpec,
  type SandboxProgramOptions,
  statusOf,
} from "./sandbox-program.ts";

/** Options of {@link createSandboxManager}. */
export interface SandboxManagerOptions extends SandboxProgramOptions {
  readonly agentId: string;
  readonly nodeName: string;
  readonly capacity: number;
  readonly images: ImageStore;
  readonly log: Logger;
  /** File with changed expiry times. */
  readonly expiryFile: string;
}

/**
 * The sandboxes of one agent: the authority on its slots, ports and ids.
 *
 * **Guarantees**: a create is admitted or rejected before it has side effects, and is idempotent; a delete always ends with the
 * sandbox's absence, even if it never existed; a deleted id never runs again in this process; sandboxes that outlive an agent are
 * adopted by the next one on the same driver.
 */
export interface SandboxManager {
  create(sandbox: AgentSandbox): Promise<CreateAnswer>;
  /** Settles when the sandbox is removed. */
  delete(sandboxId: string): Promise<void>;
  /** Sets the expiry of a sandbox; null: never. False if it is not on this agent. */
  expire(sandboxId: string, expiresAtMs: number | null): Promise<boolean>;
  status(): AgentStatus;
  /** The program of a sandbox on this agent. */
  program(sandboxId: string): Program | undefined;
  /** Calls `listener` after every change of the status. Returns a function that unsubscribes. */
  onChange(listener: () => void): () => void;
  /** Stops enforcing expiries and relaying ports; sandboxes keep running. */
  detach(): void;
  /** Rejects new sandboxes and stops all running ones; settles when none runs. */
  shutDown(): Promise<void>;
}

/** Number of deleted ids that are remembered, so that a delayed create does not resurrect one. */
const maxTombstones = 4096;

/** Creates a {@link SandboxManager} for the driver's programs. */
export function createSandboxManager(options: SandboxManagerOptions): SandboxManager {
  const { driver, images, clock, capacity } = options;
  const listeners = new Set<() => void>();
  const creating = new Map<string, Promise<CreateAnswer>>();
  const requested = new Map<string, AgentSandbox>();
  const deleting = new Map<string, Promise<void>>();
  const tombstones = new Set<string>();
  const changed = (): void => {
    for (const listener of listeners) listener();
  };
  let isShuttingDown = false;
  const expiries = openExpiries({
    file: options.expiryFile,
    clock,
    log: options.log,
    end: async (sandboxId) => void (await driver.get(sandboxId)?.stop()),
  });
  for (const program of driver.list()) if (isAlive(program)) expiries.adopt(program.id, requestedExpiry(program));
  const relays = new PortRelays({ address: options.address, clock, log: options.log });
  const expose = (program: Program): void => {
    // Without isolation a sandbox listens on the agent's address itself.
    if (driver.name !== "process") relays.open(program, portsOf(program));
  };
  for (const program of driver.list()) expose(program);
  const follow = (program: Program): void => void program.exited().then(changed);

  const findTakenPort = (ports: readonly number[], except: string): number | undefined => {
    const used = new Set<number>();
    for (const program of driver.list())
      if (program.id !== except && isAlive(program)) for (const port of portsOf(program)) used.add(port);
    for (const [id, sandbox] of requested) if (id !== except) for (const port of sandbox.ports ?? []) used.add(port);
    return ports.find((port) => used.has(port));
  };
  /** Ids that occupy a slot; a terminated sandbox keeps its log and exit code but no slot. */
  const occupied = (): ReadonlySet<string> =>
    new Set([...driver.list().flatMap((program) => (isAlive(program) ? [program.id] : [])), ...creating.keys()]);

  async function start(sandbox: AgentSandbox, image: ReadyImage): Promise<CreateAnswer> {
    const { sandboxId } = sandbox;
    const began = clock.monotonic();
    const program = await driver.start(toProgramSpec(sandbox, image, options));
    const startMs = clock.monotonic() - began;
    follow(program);
    expose(program);
    expiries.adopt(sandboxId, sandbox.expiresAtMs);
    if (program.state.kind === "exited" && program.state.reason === "StartFailed") {
      return { success: false, message: program.state.message, sandboxId };
    }
    return { ...createdAnswer(program, clock), startMs };
  }

  return {
    async create(sandbox) {
      const { sandboxId } = sandbox;
      const reject = (message: string): CreateAnswer => ({ success: false, rejected: true, message, sandboxId });
      if (isShuttingDown) return reject(`agent ${options.agentId} is shutting down`);
      if (tombstones.has(sandboxId) || deleting.has(sandboxId)) return reject(`sandbox ${sandboxId} was deleted`);
      const running = creating.get(sandboxId);
      if (running !== undefined) {
        return jsonEquals(requested.get(sandboxId), sandbox)
          ? running
          : reject(`sandbox ${sandboxId} already exists with another spec`);
      }
      const present = driver.get(sandboxId);
      if (present !== undefined) {
        // The fast path does not know the claim's uid yet; the controller does when it repeats the create.
        if (present.spec.metadata?.hash !== hashOf(sandbox))
          return reject(`sandbox ${sandboxId} already exists with another spec`);
        return createdAnswer(present, clock);
      }
      if (occupied().size >= capacity)
        return reject(`agent ${options.agentId} is full: ${capacity} of ${capacity} slots in use`);
      const port = findTakenPort(sandbox.ports ?? [], sandboxId);
      if (port !== undefined) return reject(`port ${port} is in use on agent ${options.agentId}`);
      const image = images.find(sandbox.image);
      if (image === undefined) {
        return {
          success: false,
          message: `image ${sandbox.image} not found on this machine; available: ${images.list().join(", ")}`,
          sandboxId,
        };
      }
      requested.set(sandboxId, sandbox);
      const creation = start(sandbox, image).finally(() => {
        creating.delete(sandboxId);
        requested.delete(sandboxId);
        changed();
      });
      creating.set(sandboxId, creation);
      changed();
      return creation;
    },
    delete(sandboxId) {
      const present = deleting.get(sandboxId);
      if (present !== undefined) return present;
      tombstones.add(sandboxId);
      // A set iterates in insertion order, oldest first.
      for (const oldest of tombstones) {
        if (tombstones.size <= maxTombstones) break;
        tombstones.delete(oldest);
      }
      const deletion = (async () => {
        await creating.get(sandboxId)?.catch(() => {});
        const program = driver.get(sandboxId);
        if (program === undefined) return;
        changed();
        await program.stop();
        await program.remove();
        await expiries.forget(sandboxId);
      })().finally(() => {
        deleting.delete(sandboxId);
        changed();
      });
      deleting.set(sandboxId, deletion);
      return deletion;
    },
    async expire(sandboxId, expiresAtMs) {
      const program = driver.get(sandboxId);
      if (program === undefined || deleting.has(sandboxId)) return false;
      await expiries.set(sandboxId, expiresAtMs ?? undefined);
      changed();
      return true;
    },
    status() {
      const statuses = driver
        .list()
        .filter((program) => sandboxIdPattern.test(program.id))
        .map(
          (program): SandboxStatus => ({
            ...statusOf(program, deleting.has(program.id), clock),
            expiresAtMs: expiries.of(program.id) ?? null,
          }),
        );
      return {
        agentId: options.agentId,
        nodeName: options.nodeName,
        capacity,
        allocated: occupied().size,
        images: images.list(),
        sandboxStatuses: statuses,
      };
    },
    program: (sandboxId) => (sandboxIdPattern.test(sandboxId) ? driver.get(sandboxId) : undefined),
    onChange(listener) {
      if (listeners.size === 0) for (const program of driver.list()) follow(program);
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    detach() {
      expiries.stop();
      relays.close();
    },
    async shutDown() {
      isShuttingDown = true;
      expiries.stop();
      relays.close();
      await Promise.allSettled(creating.values());
      await Promise.all(driver.list().map((program) => program.stop()));
    },
  };
}
