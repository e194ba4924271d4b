import { isNotFound, isStatusError } from "@keelson/api-machinery";
import { type Clock, sleep } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Logger } from "@keelson/controller";
import { agentSandbox } from "../fleet/agent-sandbox.ts";
import type { AgentClient } from "../fleet/agent-client.ts";
import type { AgentStatus } from "../protocol/protocol.ts";
import {
  allocationAnnotation,
  cleanupFinalizer,
  createdByFastPath,
  createdByLabel,
  createTimestampAnnotation,
  requestIdAnnotation,
} from "../api/names.ts";
import { Sandbox } from "../api/sandbox.ts";
import type { RegisteredAgent, Registry } from "../registry/registry.ts";
import type { Intent, IntentLog } from "./intent-log.ts";

/** What a {@link FastCreator} is made from. */
export interface FastCreatorOptions {
  readonly client: Client;
  readonly registry: Registry;
  readonly log: Logger;
  readonly intents: IntentLog;
  readonly agentClient: (namespace: string, name: string) => AgentClient | undefined;
  /** Whether there is such an agent, heard of or not. One that is gone has nothing left to take back. */
  readonly isThere: (namespace: string, name: string) => boolean;
  readonly clock: Clock;
  /** 128 random bits as 32 hexadecimal digits. */
  readonly newId: () => string;
}

/** A sandbox that was asked for. */
export interface FastRequest {
  readonly namespace: string;
  readonly name: string;
  readonly spec: Sandbox["spec"];
  readonly labels: Readonly<Record<string, string>>;
  /** While the first request of this name with this id is in hand, another gets the same outcome. */
  readonly requestId?: string;
}

/** What came of it. `full`: no agent has room, and nothing was done. */
export type FastOutcome =
  | {
      readonly kind: "created";
      readonly sandboxId: string;
      readonly agent: RegisteredAgent;
      readonly timings: Readonly<Record<string, number>>;
    }
  | { readonly kind: "full"; readonly message: string }
  | { readonly kind: "exists" }
  | { readonly kind: "failed"; readonly message: string };

/**
 * FAST: asks an agent first and tells the API afterwards. **Guarantees**: the intent is on disk before the agent is asked; after a
 * crash anywhere, {@link FastCreator.recover} leaves either both the sandbox and its object, or neither; an object that is there
 * stays, also where its agent is gone meanwhile; a sandbox that is deleted before the API knows of it never appears there.
 */
export interface FastCreator {
  create(request: FastRequest): Promise<FastOutcome>;
  /** Ends one that the API may not know of yet. False where the fast path has none of that name in hand. */
  delete(namespace: string, name: string): Promise<boolean>;
  isInHand(sandboxId: string): boolean;
  /** Finishes or undoes what an earlier process left, once an agent says what it has. Places are taken from the start. */
  recover(namespace: string, agent: string, status: AgentStatus): void;
  /** Undoes what an earlier process left on agents that are gone: nobody will say what they have. */
  forgetMissing(): void;
  /** Waits for what is under way; what is not finished then is found in the log. */
  stop(): Promise<void>;
}

interface Held {
  intent: Intent;
  /** An earlier process's, and no agent has it: where the API knows of it, what follows is the controller's; else it is undone. */
  readonly isLost?: boolean;
  finished: Promise<void>;
}

const firstPauseMs = 100;
const longestPauseMs = 10_000;
const keyOf = ({ namespace, name }: { readonly namespace: string; readonly name: string }): string => `${namespace}/${name}`;

/** Makes a {@link FastCreator} that knows what the log says is open. */
export function createFastCreator(options: FastCreatorOptions): FastCreator {
  const { client, registry, log, intents, clock } = options;
  const held = new Map<string, Held>();
  const stopping = new AbortController();
  const waiting = new Map<string, Intent>();
  const outcomes = new Map<string, { readonly requestId: string; readonly outcome: Promise<FastOutcome> }>();
  for (const intent of intents.pending) {
    waiting.set(intent.sandboxId, intent);
    held.set(keyOf(intent), { intent, finished: Promise.resolve() });
    registry.restore(keyOf(intent), intent.namespace, intent.agent, intent.spec.exposedPorts ?? []);
  }

  function finish(intent: Intent): void {
    intents.finish(intent.sandboxId);
    if (held.get(keyOf(intent))?.intent.sandboxId === intent.sandboxId) {
      held.delete(keyOf(intent));
    }
  }

  /** Leaves nothing of it on the agent, and its place free. */
  async function undo(intent: Intent): Promise<void> {
    const agentClient = options.agentClient(intent.namespace, intent.agent);
    if (agentClient === undefined && options.isThere(intent.namespace, intent.agent)) {
      throw new Error(`agent ${intent.agent} is not heard of`);
    }
    await agentClient?.delete(intent.sandboxId);
    registry.release(keyOf(intent));
    finish(intent);
  }

  /** Writes the object, again and again while the API is away; undoes the sandbox where the API refuses it for good. */
  async function tellApi(key: string): Promise<void> {
    for (let pauseMs = firstPauseMs; !stopping.signal.aborted; pauseMs = Math.min(pauseMs * 2, longestPauseMs)) {
      const entry = held.get(key);
      if (entry === undefined) return;
      const { intent } = entry;
      try {
        if (intent.isDeleted === true) {
          // An earlier attempt may have written the object, and nobody may have heard of it.
          if (await isOurs(intent)) await client.delete(Sandbox, { namespace: intent.namespace, name: intent.name });
          await undo(intent);
          return;
        }
        if (entry.isLost === true) {
          const isTold = await isOurs(intent);
          if (entry.intent.isDeleted === true) continue;
          if (isTold) finish(intent);
          else await undo(intent);
          return;
        }
        await client.create(Sandbox, objectOf(intent));
        if (held.get(key)?.intent.isDeleted === true) continue;
        finish(intent);
        return;
      } catch (error) {
        const code = isStatusError(error) ? (error.status.code ?? 500) : 500;
        if (code === 409 && (await isOurs(intent).catch(() => false))) {
          // The answer to an earlier attempt was lost; the object is there.
          finish(intent);
          return;
        }
        if (code >= 400 && code < 500 && code !== 429 && code !== 408) {
          log.warn({ err: error, sandbox: key }, "the API refuses a sandbox that runs already; it is ended");
          const settled = await undo(intent).then(
            () => true,
            () => false,
          );
          if (settled) return;
        }
        await sleep(clock, pauseMs, stopping.signal).catch(() => {});
      }
    }
  }

  async function isOurs(intent: Intent): Promise<boolean> {
    try {
      const present = await client.get(Sandbox, { namespace: intent.namespace, name: intent.name });
      return present.metadata.annotations?.[allocationAnnotation]?.includes(intent.sandboxId) ?? false;
    } catch (error) {
      if (isNotFound(error)) return false;
      throw error;
    }
  }

  function hold(intent: Intent, isLost = false): void {
    const key = keyOf(intent);
    const entry: Held = { intent, isLost, finished: Promise.resolve() };
    held.set(key, entry);
    entry.finished = tellApi(key).finally(() => outcomes.delete(key));
  }

  async function createOne(request: FastRequest): Promise<FastOutcome> {
    const key = keyOf(request);
    if (held.has(key) || registry.placeOf(key) !== undefined) return { kind: "exists" };
    const { spec, namespace } = request;
    const refused = new Set<string>();
    const began = clock.monotonic();
    for (;;) {
      const found = registry.allocate({
        key,
        namespace,
        pool: spec.poolRef,
        image: spec.image,
        ports: spec.exposedPorts ?? [],
        except: refused,
      });
      if ("problem" in found) return { kind: "full", message: found.problem };
      const { agent } = found;
      const intent: Intent = {
        sandboxId: options.newId(),
        namespace,
        name: request.name,
        agent: agent.name,
        node: agent.node,
        spec,
        labels: request.labels,
        ...(request.requestId !== undefined && { requestId: request.requestId }),
        at: clock.now(),
      };
      held.set(key, { intent, finished: Promise.resolve() });
      const allocated = clock.monotonic();
      try {
        await intents.write(intent);
      } catch (error) {
        held.delete(key);
        registry.release(key);
        throw error;
      }
      const written = clock.monotonic();
      let problem: string;
      try {
        const agentClient = options.agentClient(namespace, agent.name);
        const { sandboxId } = intent;
        const env = Object.fromEntries((spec.envs ?? []).map(({ name, value }) => [name, value ?? ""]));
        const answer = await agentClient?.create(
          agentSandbox({ sandboxId, claimUid: "", claimName: request.name, namespace }, spec, env),
        );
        if (answer?.success === true) {
          const asked = clock.monotonic();
          hold(held.get(key)?.intent ?? intent);
          const timings = {
            allocate: allocated - began,
            log: written - allocated,
            agent: asked - written,
            ...(answer.startMs !== undefined && { start: answer.startMs }),
            total: asked - began,
          };
          return { kind: "created", sandboxId: intent.sandboxId, agent, timings };
        }
        problem = answer?.message ?? "the agent is not heard of";
        if (answer === undefined || answer.rejected === true) {
          // Nothing was done there, so another agent may be asked.
          registry.release(key);
          refused.add(agent.name);
          finish(intent);
          continue;
        }
      } catch (error) {
        problem = error instanceof Error ? error.message : String(error);
      }
      // It may run there or not: the delete is a fence that also stops a create which comes later.
      await undo(intent).catch((error: unknown) => {
        log.warn({ err: error, sandbox: key }, "a sandbox that failed could not be taken back yet");
        hold({ ...intent, isDeleted: true });
      });
      return { kind: "failed", message: problem };
    }
  }

  return {
    async create(request) {
      const { requestId } = request;
      const key = keyOf(request);
      const before = outcomes.get(key);
      if (before !== undefined && before.requestId === requestId) return before.outcome;
      const outcome = createOne(request);
      if (requestId === undefined || before !== undefined) return outcome;
      outcomes.set(key, { requestId, outcome });
      const forget = (): void => void (outcomes.get(key)?.outcome === outcome && outcomes.delete(key));
      return outcome.then(
        (done) => {
          if (done.kind !== "created" || !held.has(key)) forget();
          return done;
        },
        (error: unknown) => {
          forget();
          throw error;
        },
      );
    },
    async delete(namespace, name) {
      const entry = held.get(`${namespace}/${name}`);
      if (entry === undefined) return false;
      entry.intent = { ...entry.intent, isDeleted: true };
      await intents.write(entry.intent);
      await entry.finished;
      return true;
    },
    isInHand: (sandboxId) => waiting.has(sandboxId) || [...held.values()].some(({ intent }) => intent.sandboxId === sandboxId),
    recover(namespace, agent, status) {
      for (const [id, intent] of waiting) {
        if (intent.namespace !== namespace || intent.agent !== agent) continue;
        waiting.delete(id);
        const isRunning = status.sandboxStatuses.some((each) => each.sandboxId === id);
        // What never came to the agent is fenced there, so that a request that is still on its way finds the door shut.
        hold(held.get(keyOf(intent))?.intent ?? intent, !isRunning);
      }
    },
    forgetMissing() {
      for (const [id, intent] of waiting) {
        if (options.isThere(intent.namespace, intent.agent)) continue;
        waiting.delete(id);
        hold(held.get(keyOf(intent))?.intent ?? intent, true);
      }
    },
    async stop() {
      stopping.abort();
      await Promise.all([...held.values()].map((entry) => entry.finished));
    },
  };
}

function objectOf(intent: Intent): Parameters<Client["create"]>[1] & Omit<Sandbox, "apiVersion" | "kind" | "status"> {
  const allocation = {
    assignedPod: intent.agent,
    assignedNode: intent.node,
    allocatedAt: new Date(intent.at).toISOString(),
    sandboxID: intent.sandboxId,
  };
  return {
    metadata: {
      name: intent.name,
      namespace: intent.namespace,
      labels: { ...intent.labels, [createdByLabel]: createdByFastPath },
      annotations: {
        [allocationAnnotation]: JSON.stringify(allocation),
        [createTimestampAnnotation]: `${intent.at}000000`,
        ...(intent.requestId !== undefined && { [requestIdAnnotation]: intent.requestId }),
      },
      finalizers: [cleanupFinalizer],
    },
    spec: intent.spec,
  };
}
