import { jsonEquals } from "@keelson/api-machinery";
import type { Logger } from "@keelson/controller";
import type { Program } from "@keelson/execution";
import { sandboxIdPattern } from "../api/names.ts";
import { openExpiries } from "./expiries.ts";
import type { ImageStore, ReadyImage } from "./image-store.ts";
import type { AgentSandbox, AgentStatus, CreateAnswer, SandboxStatus } from "../protocol/protocol.ts";
import {
  created,
  hashOf,
  isAlive,
  madeToExpire,
  portsOf,
  programOf,
  type SandboxProgramOptions,
  statusOf,
} from "./sandbox-program.ts";

/** What a {@link SandboxManager} is made from. */
export interface SandboxManagerOptions extends SandboxProgramOptions {
  readonly agentId: string;
  readonly nodeName: string;
  readonly capacity: number;
  readonly images: ImageStore;
  readonly log: Logger;
  /** File with what was changed of the times at which sandboxes expire. */
  readonly expiryFile: string;
}

/**
 * The sandboxes of one agent: the authority on its places, its ports and its ids.
 *
 * **Guarantees**: a create is admitted or refused before anything is done, and a repeated one of the same sandbox is the same
 * one; a delete of anything, also of what never was, ends with its absence; an id that was deleted is never run again while this
 * manager lives; what ran when an agent died is here when the next one opens the same driver.
 */
export interface SandboxManager {
  create(sandbox: AgentSandbox): Promise<CreateAnswer>;
  /** Settles when nothing of it is left. */
  delete(sandboxId: string): Promise<void>;
  /** Sets when a sandbox is ended, whoever asks for it then or not; null: never. False where it is not here. */
  expire(sandboxId: string, expiresAtMs: number | null): Promise<boolean>;
  status(): AgentStatus;
  /** The log's files of a sandbox that is here. */
  program(sandboxId: string): Program | undefined;
  /** Calls `listener` after every change of the status. Returns the way to stop. */
  onChange(listener: () => void): () => void;
  /** Refuses whatever comes and stops all that runs; settles when nothing does. */
  shutDown(): Promise<void>;
}

/** Ids of deleted sandboxes that are remembered, so that a create that comes late does not bring one back. */
const mostTombstones = 4096;

/** Makes a {@link SandboxManager} of the programs that the driver has. */
export function createSandboxManager(options: SandboxManagerOptions): SandboxManager {
  const { driver, images, clock, capacity } = options;
  const listeners = new Set<() => void>();
  const creating = new Map<string, Promise<CreateAnswer>>();
  const asked = new Map<string, AgentSandbox>();
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
  for (const program of driver.list()) if (isAlive(program)) expiries.adopt(program.id, madeToExpire(program));
  const follow = (program: Program): void => void program.exited().then(changed);

  const isTaken = (ports: readonly number[], except: string): number | undefined => {
    const used = new Set<number>();
    for (const program of driver.list())
      if (program.id !== except && isAlive(program)) for (const port of portsOf(program)) used.add(port);
    for (const [id, sandbox] of asked) if (id !== except) for (const port of sandbox.ports ?? []) used.add(port);
    return ports.find((port) => used.has(port));
  };
  /** What takes a place: what has ended keeps its log and its exit code, and no place. */
  const placed = (): ReadonlySet<string> =>
    new Set([...driver.list().flatMap((program) => (isAlive(program) ? [program.id] : [])), ...creating.keys()]);

  async function start(sandbox: AgentSandbox, image: ReadyImage): Promise<CreateAnswer> {
    const { sandboxId } = sandbox;
    const began = clock.monotonic();
    const program = await driver.start(programOf(sandbox, image, options));
    const startMs = clock.monotonic() - began;
    follow(program);
    expiries.adopt(sandboxId, sandbox.expiresAtMs);
    if (program.state.kind === "exited" && program.state.reason === "StartFailed") {
      return { success: false, message: program.state.message, sandboxId };
    }
    return { ...created(program, clock), startMs };
  }

  return {
    async create(sandbox) {
      const { sandboxId } = sandbox;
      const refuse = (message: string): CreateAnswer => ({ success: false, rejected: true, message, sandboxId });
      if (isShuttingDown) return refuse(`agent ${options.agentId} is being stopped`);
      if (tombstones.has(sandboxId) || deleting.has(sandboxId)) return refuse(`sandbox ${sandboxId} was deleted`);
      const running = creating.get(sandboxId);
      if (running !== undefined) {
        return jsonEquals(asked.get(sandboxId), sandbox) ? running : refuse(`there is another sandbox ${sandboxId}`);
      }
      const present = driver.get(sandboxId);
      if (present !== undefined) {
        // The claim's uid is not known yet where the fast path asks, and is where the controller asks again.
        if (present.spec.metadata?.hash !== hashOf(sandbox)) return refuse(`there is another sandbox ${sandboxId}`);
        return created(present, clock);
      }
      if (placed().size >= capacity)
        return refuse(`agent ${options.agentId} has no free place: ${capacity} of ${capacity} taken`);
      const port = isTaken(sandbox.ports ?? [], sandboxId);
      if (port !== undefined) return refuse(`port ${port} is taken on agent ${options.agentId}`);
      const image = images.find(sandbox.image);
      if (image === undefined) {
        return {
          success: false,
          message: `image ${sandbox.image} is not on this machine; there is ${images.list().join(", ")}`,
          sandboxId,
        };
      }
      asked.set(sandboxId, sandbox);
      const creation = start(sandbox, image).finally(() => {
        creating.delete(sandboxId);
        asked.delete(sandboxId);
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
      // The oldest first: a set keeps the order of insertion.
      for (const oldest of tombstones) {
        if (tombstones.size <= mostTombstones) break;
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
        allocated: placed().size,
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
    async shutDown() {
      isShuttingDown = true;
      expiries.stop();
      await Promise.allSettled(creating.values());
      await Promise.all(driver.list().map((program) => program.stop()));
    },
  };
}
