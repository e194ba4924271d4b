import { type Clock, sleep } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Logger } from "@keelson/controller";
import type { AgentClient } from "../../fleet/agent-client.ts";
import { AgentError } from "../../protocol/agent-error.ts";
import type { AgentStatus } from "../../protocol/protocol.ts";
import { Sandbox } from "../../api/sandbox.ts";
import { claimsOf, type Registry } from "../../registry/registry.ts";
import { type FastOutcome, type FastRequest, slotFor, timingsOf } from "./fast-request.ts";
import { intentFor, startOnAgent } from "./intent.ts";
import type { Intent, IntentLog } from "./intent-log.ts";
import { owns, PendingCreate } from "./pending-create.ts";
import { deleteObject, hasObject, isRejection, objectOf } from "./sandbox-object.ts";

/** Dependencies of a {@link FastCreator}. */
export interface FastCreatorOptions {
  readonly client: Client;
  readonly registry: Registry;
  readonly log: Logger;
  readonly intents: IntentLog;
  readonly agentClient: (namespace: string, name: string) => AgentClient | undefined;
  /** Whether an agent's Pod exists, reporting or not. A deleted one has nothing left to undo. */
  readonly podExists: (namespace: string, name: string) => boolean;
  readonly clock: Clock;
  /** 128 random bits as 32 hexadecimal digits. */
  readonly newId: () => string;
}

const firstPauseMs = 100;
const maxPauseMs = 10_000;
const keyOf = ({ namespace, name }: { readonly namespace: string; readonly name: string }): string => `${namespace}/${name}`;

/**
 * Creates sandboxes in mode FAST: starts them on an agent first and writes their objects afterwards.
 *
 * **Guarantees**: the intent is on disk before the agent is called; after a crash at any point, {@link FastCreator.recover} leaves either
 * both the sandbox and its object, or neither; an existing object is kept, even if its agent was deleted; a sandbox whose
 * deletion was acknowledged is stopped, and its object deleted if it was written, even after a crash.
 */
export class FastCreator {
  readonly #with: FastCreatorOptions;
  /** By key: the entry that owns the name and its slot. */
  readonly #pending = new Map<string, PendingCreate>();
  /** Entries of an earlier process that await their agent's report. */
  readonly #unconfirmed = new Set<PendingCreate>();
  /** Entries whose objects are being written, or that are being undone. */
  readonly #settling = new Map<PendingCreate, Promise<void>>();
  readonly #outcomes = new Map<string, { readonly requestId: string; readonly outcome: Promise<FastOutcome> }>();
  readonly #stopping = new AbortController();

  /** Resumes what the log has pending; slots are allocated immediately. */
  constructor(options: FastCreatorOptions) {
    this.#with = options;
    const { intents, registry } = options;
    for (const intent of intents.pending) {
      const entry = new PendingCreate(intent);
      this.#unconfirmed.add(entry);
      const other = this.#pending.get(keyOf(intent));
      if (other === undefined || owns(intent, other.intent)) this.#pending.set(keyOf(intent), entry);
    }
    for (const [key, { intent }] of this.#pending) {
      // Otherwise an object of that name, this sandbox's or another one's, has the slot.
      if (registry.agentOf(key) !== undefined) continue;
      registry.restore(key, intent.namespace, intent.agent, claimsOf(intent.spec), intent.sandboxId);
    }
  }

  async create(request: FastRequest): Promise<FastOutcome> {
    const { requestId } = request;
    const key = keyOf(request);
    const before = this.#outcomes.get(key);
    if (before !== undefined && before.requestId === requestId) return before.outcome;
    const outcome = this.#create(request);
    if (requestId === undefined || before !== undefined) return outcome;
    this.#outcomes.set(key, { requestId, outcome });
    const forget = (): void => {
      if (this.#outcomes.get(key)?.outcome === outcome) this.#outcomes.delete(key);
    };
    try {
      const done = await outcome;
      if (done.kind !== "created" || !this.#pending.has(key)) forget();
      return done;
    } catch (error) {
      forget();
      throw error;
    }
  }

  /**
   * Deletes a sandbox whose object may not be written yet. Resolves once the deletion is on disk; a crash after that does not lose it.
   * Returns false if no create of that name is pending.
   */
  async delete(namespace: string, name: string): Promise<boolean> {
    const key = keyOf({ namespace, name });
    const entry = this.#pending.get(key);
    if (entry === undefined) return false;
    entry.delete();
    // A repeated request creates another sandbox from now on.
    this.#outcomes.delete(key);
    await this.#with.intents.write(entry.intent);
    // Undone in the meantime, for example because the API had rejected it.
    if (this.#pending.get(key) !== entry) this.#with.intents.finish(entry.intent.sandboxId);
    return true;
  }

  /** A running sandbox whose object may not be written yet. */
  pendingOf(namespace: string, name: string): Intent | undefined {
    const entry = this.#pending.get(keyOf({ namespace, name }));
    return entry === undefined || entry.isLost || entry.isDeleted ? undefined : entry.intent;
  }

  /**
   * Resolves when the object of a sandbox is written, or the sandbox undone; immediately if none is pending, and after 30 s at the
   * latest. A sandbox of an earlier process stays pending until its agent reports or is deleted.
   */
  async whenWritten(namespace: string, name: string): Promise<void> {
    await this.#pending.get(keyOf({ namespace, name }))?.settled(this.#with.clock);
  }

  /** Whether the object of a sandbox may not be written yet. */
  isPending(sandboxId: string): boolean {
    return [...this.#pending.values(), ...this.#unconfirmed, ...this.#settling.keys()].some(
      ({ intent }) => intent.sandboxId === sandboxId,
    );
  }

  /** Completes or undoes the intents of an earlier process once their agent reports. */
  recover(namespace: string, agent: string, status: AgentStatus): void {
    for (const entry of this.#unconfirmed) {
      const { intent } = entry;
      if (intent.namespace !== namespace || intent.agent !== agent) continue;
      const isRunning = status.sandboxStatuses.some((each) => each.sandboxId === intent.sandboxId);
      // A sandbox that never reached the agent is deleted there, so that a request still in flight is rejected.
      this.#confirm(entry, isRunning);
    }
  }

  /** Undoes the intents of an earlier process on agents that were deleted and will never report. */
  settleMissing(): void {
    for (const entry of this.#unconfirmed)
      if (!this.#with.podExists(entry.intent.namespace, entry.intent.agent)) this.#confirm(entry, false);
  }

  /** Waits for writes in flight; anything unfinished is resumed from the log. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await Promise.all(this.#settling.values());
    for (const entry of this.#pending.values()) entry.finish();
  }

  async #create(request: FastRequest): Promise<FastOutcome> {
    const { registry, intents, clock } = this.#with;
    const key = keyOf(request);
    // A deleted sandbox keeps its name and its slot until it has stopped.
    const before = this.#pending.get(key);
    if (before?.isDeleted === true) await before.finished;
    if (this.#pending.has(key) || registry.agentOf(key) !== undefined) return { kind: "exists" };
    const { namespace } = request;
    const except = new Set<string>();
    const began = clock.monotonic();
    for (;;) {
      const sandboxId = this.#with.newId();
      const found = registry.allocate(slotFor(request, { key, except, holder: sandboxId }));
      if ("problem" in found) return { kind: "full", message: found.problem };
      const { agent } = found;
      const intent = intentFor(request, agent, { sandboxId, clock });
      const entry = new PendingCreate(intent);
      this.#pending.set(key, entry);
      const allocated = clock.monotonic();
      try {
        await intents.write(intent);
      } catch (error) {
        registry.release(key, sandboxId);
        this.#finish(entry);
        throw error;
      }
      const written = clock.monotonic();
      const answer = await startOnAgent(intent, this.#with.agentClient(namespace, agent.name));
      if (answer.success) {
        const timings = timingsOf({ began, allocated, written, started: clock.monotonic() }, answer);
        this.#hold(entry);
        return { kind: "created", sandboxId, agent, timings };
      }
      if (answer.rejected === true) {
        // Rejected without side effects, so another agent may be tried.
        registry.release(key, sandboxId);
        except.add(agent.name);
        this.#finish(entry);
        if (entry.isDeleted) return { kind: "failed", message: "the sandbox was deleted before it was started" };
        continue;
      }
      await this.#undoFailed(entry);
      return { kind: "failed", message: answer.message ?? "the sandbox could not be started" };
    }
  }

  /** The sandbox may or may not run: the delete is a fence that also rejects a create still in flight. */
  async #undoFailed(entry: PendingCreate): Promise<void> {
    try {
      await this.#undo(entry);
    } catch (error) {
      this.#with.log.warn({ err: error, sandbox: keyOf(entry.intent) }, "could not undo a failed create; retrying");
      entry.delete();
      this.#hold(entry);
    }
  }

  #confirm(entry: PendingCreate, isRunning: boolean): void {
    this.#unconfirmed.delete(entry);
    // Without the name, a sandbox cannot get an object.
    entry.isLost = !isRunning || this.#pending.get(keyOf(entry.intent)) !== entry;
    this.#hold(entry);
  }

  #hold(entry: PendingCreate): void {
    const key = keyOf(entry.intent);
    const outcome = this.#outcomes.get(key);
    const settled = this.#settle(entry).finally(() => {
      this.#settling.delete(entry);
      if (this.#outcomes.get(key) === outcome) this.#outcomes.delete(key);
    });
    this.#settling.set(entry, settled);
  }

  #finish(entry: PendingCreate): void {
    const key = keyOf(entry.intent);
    this.#with.intents.finish(entry.intent.sandboxId);
    if (this.#pending.get(key) === entry) this.#pending.delete(key);
    entry.finish();
  }

  /** Deletes the sandbox on its agent and frees its slot. */
  async #undo(entry: PendingCreate): Promise<void> {
    const { namespace, agent, sandboxId } = entry.intent;
    const agentClient = this.#with.agentClient(namespace, agent);
    if (agentClient === undefined && this.#with.podExists(namespace, agent)) {
      throw new AgentError("Unreachable", `agent ${agent} has not reported`);
    }
    await agentClient?.delete(sandboxId);
    // An object of the same name may have got the slot in the meantime.
    this.#with.registry.release(keyOf(entry.intent), sandboxId);
    this.#finish(entry);
  }

  /** Writes the object, retrying while the API is unavailable; undoes the sandbox if the API rejects it permanently. */
  async #settle(entry: PendingCreate): Promise<void> {
    const { signal } = this.#stopping;
    for (let pauseMs = firstPauseMs; !signal.aborted; pauseMs = Math.min(pauseMs * 2, maxPauseMs)) {
      try {
        if (await this.#attempt(entry)) return;
      } catch (error) {
        if (await this.#isResolved(entry, error)) return;
        await sleep(this.#with.clock, pauseMs, signal).catch(() => {});
      }
    }
  }

  /** One attempt to write or undo; false if the sandbox was deleted in the meantime. */
  async #attempt(entry: PendingCreate): Promise<boolean> {
    const { client } = this.#with;
    if (entry.isDeleted) {
      // An earlier attempt may have written the object without an acknowledgement.
      await deleteObject(entry.intent, client);
      await this.#undo(entry);
      return true;
    }
    if (entry.isLost) {
      const isWritten = await hasObject(entry.intent, client);
      if (entry.isDeleted) return false;
      if (isWritten) this.#finish(entry);
      else await this.#undo(entry);
      return true;
    }
    await client.create(Sandbox, objectOf(entry.intent));
    if (entry.isDeleted) return false;
    this.#finish(entry);
    return true;
  }

  /** Whether nothing is left to do after an error of {@link #attempt}. */
  async #isResolved(entry: PendingCreate, error: unknown): Promise<boolean> {
    // The next attempt also deletes an object that this one may have written.
    if (entry.isDeleted || entry.isLost || !isRejection(error)) return false;
    // The acknowledgement of an earlier attempt may have been lost.
    const isWritten = await hasObject(entry.intent, this.#with.client).catch(() => undefined);
    if (isWritten === undefined || entry.isDeleted) return false;
    if (isWritten) {
      this.#finish(entry);
      return true;
    }
    const sandbox = keyOf(entry.intent);
    this.#with.log.warn({ err: error, sandbox }, "the API rejected the object of a running sandbox; stopping the sandbox");
    return this.#undo(entry).then(
      () => true,
      () => false,
    );
  }
}
