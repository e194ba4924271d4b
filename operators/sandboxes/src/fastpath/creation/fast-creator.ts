import { ignoreNotFound, isStatusError } from "@keelson/api-machinery";
import { type Clock, sleep } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Logger } from "@keelson/controller";
import type { AgentClient } from "../../fleet/agent-client.ts";
import { AgentError } from "../../protocol/agent-error.ts";
import type { AgentStatus } from "../../protocol/protocol.ts";
import { Sandbox } from "../../api/sandbox.ts";
import type { Registry } from "../../registry/registry.ts";
import type { FastOutcome, FastRequest } from "./fast-request.ts";
import { intentFor, startOnAgent } from "./intent.ts";
import type { Intent, IntentLog } from "./intent-log.ts";
import { hasObject, objectOf } from "./sandbox-object.ts";

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

/** A sandbox whose object is not written yet. */
interface PendingCreate {
  intent: Intent;
  /** From an earlier process, and no agent has it: if its object exists, the controller continues; otherwise it is undone. */
  readonly isLost?: boolean;
  finished: Promise<void>;
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
  readonly #pending = new Map<string, PendingCreate>();
  /** Intents of an earlier process that await their agent's report, by sandbox id. */
  readonly #unconfirmed = new Map<string, Intent>();
  readonly #outcomes = new Map<string, { readonly requestId: string; readonly outcome: Promise<FastOutcome> }>();
  readonly #stopping = new AbortController();

  /** Resumes what the log has pending; slots are allocated immediately. */
  constructor(options: FastCreatorOptions) {
    this.#with = options;
    for (const intent of options.intents.pending) {
      this.#unconfirmed.set(intent.sandboxId, intent);
      this.#pending.set(keyOf(intent), { intent, finished: Promise.resolve() });
      options.registry.restore(keyOf(intent), intent.namespace, intent.agent, intent.spec.exposedPorts ?? []);
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
   * Deletes a sandbox whose object may not be written yet: resolves once that is on disk, so that it happens even after a crash. False if
   * the fast path has none of that name.
   */
  async delete(namespace: string, name: string): Promise<boolean> {
    const key = keyOf({ namespace, name });
    const entry = this.#pending.get(key);
    if (entry === undefined) return false;
    entry.intent = { ...entry.intent, isDeleted: true };
    // A request that is repeated from now on creates another sandbox.
    this.#outcomes.delete(key);
    const { sandboxId } = entry.intent;
    await this.#with.intents.write(entry.intent);
    // Undone meanwhile, for example because the API had rejected it.
    if (this.#pending.get(key)?.intent.sandboxId !== sandboxId) this.#with.intents.finish(sandboxId);
    return true;
  }

  /** A running sandbox whose object may not be written yet. */
  pendingOf(namespace: string, name: string): Intent | undefined {
    const entry = this.#pending.get(`${namespace}/${name}`);
    return entry === undefined || entry.isLost === true || entry.intent.isDeleted === true ? undefined : entry.intent;
  }

  /** Resolves when the object of a sandbox is written, or the sandbox undone; immediately if none is pending. */
  async whenWritten(namespace: string, name: string): Promise<void> {
    await this.#pending.get(`${namespace}/${name}`)?.finished;
  }

  /** Whether the object of a sandbox may not be written yet. */
  isPending(sandboxId: string): boolean {
    return this.#unconfirmed.has(sandboxId) || [...this.#pending.values()].some(({ intent }) => intent.sandboxId === sandboxId);
  }

  /** Completes or undoes the intents of an earlier process once their agent reports. */
  recover(namespace: string, agent: string, status: AgentStatus): void {
    for (const [id, intent] of this.#unconfirmed) {
      if (intent.namespace !== namespace || intent.agent !== agent) continue;
      this.#unconfirmed.delete(id);
      const isRunning = status.sandboxStatuses.some((each) => each.sandboxId === id);
      // A sandbox that never reached the agent is deleted there, so that a request still in flight is rejected.
      this.#hold(this.#pending.get(keyOf(intent))?.intent ?? intent, !isRunning);
    }
  }

  /** Undoes the intents of an earlier process on agents that were deleted and will never report. */
  settleMissing(): void {
    for (const [id, intent] of this.#unconfirmed) {
      if (this.#with.podExists(intent.namespace, intent.agent)) continue;
      this.#unconfirmed.delete(id);
      this.#hold(this.#pending.get(keyOf(intent))?.intent ?? intent, true);
    }
  }

  /** Waits for writes in flight; anything unfinished is resumed from the log. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await Promise.all([...this.#pending.values()].map((entry) => entry.finished));
  }

  async #create(request: FastRequest): Promise<FastOutcome> {
    const { registry, intents, clock } = this.#with;
    const key = keyOf(request);
    // A deleted sandbox keeps its name and its slot until it has stopped.
    if (this.#isDeleted(key)) await this.#pending.get(key)?.finished;
    if (this.#pending.has(key) || registry.agentOf(key) !== undefined) return { kind: "exists" };
    const { spec, namespace } = request;
    const except = new Set<string>();
    const began = clock.monotonic();
    for (;;) {
      const ports = spec.exposedPorts ?? [];
      const found = registry.allocate({ key, namespace, pool: spec.poolRef, image: spec.image, ports, except });
      if ("problem" in found) return { kind: "full", message: found.problem };
      const { agent } = found;
      const intent = intentFor(request, agent, this.#with);
      this.#pending.set(key, { intent, finished: Promise.resolve() });
      const allocated = clock.monotonic();
      try {
        await intents.write(intent);
      } catch (error) {
        this.#pending.delete(key);
        registry.release(key);
        throw error;
      }
      const written = clock.monotonic();
      const answer = await startOnAgent(intent, this.#with.agentClient(namespace, agent.name));
      if (answer.success) {
        const started = clock.monotonic();
        this.#hold(this.#pending.get(key)?.intent ?? intent);
        const timings = {
          allocate: allocated - began,
          log: written - allocated,
          agent: started - written,
          ...(answer.startMs !== undefined && { start: answer.startMs }),
          // The part of `start` in which a warm slot was claimed: all of it.
          ...(answer.startMs !== undefined && (answer.start ?? "cold") !== "cold" && { warm: answer.startMs }),
          total: started - began,
        };
        return { kind: "created", sandboxId: intent.sandboxId, agent, timings };
      }
      if (answer.rejected === true) {
        // Rejected without side effects, so another agent may be tried.
        registry.release(key);
        except.add(agent.name);
        const isDeleted = this.#isDeleted(key);
        this.#finish(intent);
        if (isDeleted) return { kind: "failed", message: "the sandbox was deleted before it was started" };
        continue;
      }
      await this.#undoFailed(intent);
      return { kind: "failed", message: answer.message ?? "the sandbox could not be started" };
    }
  }

  /** The sandbox may or may not run: the delete is a fence that also rejects a create still in flight. */
  async #undoFailed(intent: Intent): Promise<void> {
    try {
      await this.#undo(intent);
    } catch (error) {
      this.#with.log.warn({ err: error, sandbox: keyOf(intent) }, "could not undo a failed create; retrying");
      this.#hold({ ...intent, isDeleted: true });
    }
  }

  #hold(intent: Intent, isLost = false): void {
    const key = keyOf(intent);
    const entry: PendingCreate = { intent, isLost, finished: Promise.resolve() };
    this.#pending.set(key, entry);
    const outcome = this.#outcomes.get(key);
    entry.finished = this.#settle(key).finally(() => {
      if (this.#outcomes.get(key) === outcome) this.#outcomes.delete(key);
    });
  }

  #finish(intent: Intent): void {
    this.#with.intents.finish(intent.sandboxId);
    if (this.#pending.get(keyOf(intent))?.intent.sandboxId === intent.sandboxId) this.#pending.delete(keyOf(intent));
  }

  /** Deletes the sandbox on its agent and frees its slot. */
  async #undo(intent: Intent): Promise<void> {
    const agentClient = this.#with.agentClient(intent.namespace, intent.agent);
    if (agentClient === undefined && this.#with.podExists(intent.namespace, intent.agent)) {
      throw new AgentError("Unreachable", `agent ${intent.agent} has not reported`);
    }
    await agentClient?.delete(intent.sandboxId);
    this.#with.registry.release(keyOf(intent));
    this.#finish(intent);
  }

  /** Writes the object, retrying while the API is unavailable; undoes the sandbox if the API rejects it permanently. */
  async #settle(key: string): Promise<void> {
    const { signal } = this.#stopping;
    for (let pauseMs = firstPauseMs; !signal.aborted; pauseMs = Math.min(pauseMs * 2, maxPauseMs)) {
      try {
        if (await this.#attempt(key)) return;
        continue;
      } catch (error) {
        if (await this.#isResolved(key, error)) return;
        await sleep(this.#with.clock, pauseMs, signal).catch(() => {});
      }
    }
  }

  /** One attempt to write or undo; false if the intent changed meanwhile. */
  async #attempt(key: string): Promise<boolean> {
    const entry = this.#pending.get(key);
    if (entry === undefined) return true;
    const { intent } = entry;
    if (intent.isDeleted === true) {
      // An earlier attempt may have written the object without an acknowledgement.
      if (await hasObject(intent, this.#with.client))
        await ignoreNotFound(this.#with.client.delete(Sandbox, { namespace: intent.namespace, name: intent.name }));
      await this.#undo(intent);
      return true;
    }
    if (entry.isLost === true) {
      const isWritten = await hasObject(intent, this.#with.client);
      if (this.#isDeleted(key)) return false;
      if (isWritten) this.#finish(intent);
      else await this.#undo(intent);
      return true;
    }
    await this.#with.client.create(Sandbox, objectOf(intent));
    if (this.#isDeleted(key)) return false;
    this.#finish(intent);
    return true;
  }

  #isDeleted(key: string): boolean {
    return this.#pending.get(key)?.intent.isDeleted === true;
  }

  /** Whether nothing is left to do after an error of {@link #attempt}. */
  async #isResolved(key: string, error: unknown): Promise<boolean> {
    const intent = this.#pending.get(key)?.intent;
    if (intent === undefined) return true;
    const code = isStatusError(error) ? (error.status.code ?? 500) : 500;
    if (code === 409 && !this.#isDeleted(key) && (await hasObject(intent, this.#with.client).catch(() => false))) {
      // The acknowledgement of an earlier attempt was lost; the object exists.
      if (this.#isDeleted(key)) return false;
      this.#finish(intent);
      return true;
    }
    if (code < 400 || code >= 500 || code === 429 || code === 408) return false;
    this.#with.log.warn({ err: error, sandbox: key }, "the API rejected the object of a running sandbox; stopping the sandbox");
    return this.#undo(intent).then(
      () => true,
      () => false,
    );
  }
}
