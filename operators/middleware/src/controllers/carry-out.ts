import { randomBytes } from "node:crypto";
import {
  controllerReference,
  type DeepReadonly,
  isAlreadyExists,
  isConflict,
  isNotFound,
  Secret,
} from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import type { AgentCalls } from "../agent/agent-calls.ts";
import { labels } from "../api/names.ts";
import type { Effect } from "./effect.ts";

/** What effects are carried out with. */
export interface EffectContext {
  readonly client: Client;
  readonly fieldManager: string;
  readonly signal?: AbortSignal;
  readonly agents: AgentCalls;
  /** The token of the agents of the object that the effects are about. */
  readonly agentToken: () => Promise<string>;
  /** Whose status a call's answer goes into. */
  readonly writeStatus: (status: object) => Promise<boolean>;
}

/** A call that was not answered: to be tried again. */
export class AgentUnreachable extends Error {
  override readonly name = "AgentUnreachable";
  readonly code = "AgentUnreachable";
}

/**
 * Carries out effects one after another. Where an object has moved on, the rest is left: its change brings the next decision.
 *
 * **Errors**: those of the client, and {@link AgentUnreachable}; the retry decides anew from what is on record.
 */
export async function carryOut(effects: readonly Effect[], context: EffectContext): Promise<void> {
  for (const effect of effects) if (!(await carryOutOne(effect, context))) return;
}

async function carryOutOne(effect: Effect, context: EffectContext): Promise<boolean> {
  const { client, fieldManager, signal } = context;
  switch (effect.kind) {
    case "status": {
      const { name = "", namespace, resourceVersion } = effect.object.metadata;
      // The whole status is this controller's own, so what is left out goes away.
      const configuration = { metadata: { name, namespace, resourceVersion }, status: effect.status };
      return await unlessMovedOn(
        client.applyStatus(effect.type, configuration as Parameters<Client["applyStatus"]>[1], {
          fieldManager,
          signal: signal as AbortSignal,
        }),
      );
    }
    case "annotate": {
      const { name = "", namespace, resourceVersion } = effect.object.metadata;
      const body = { metadata: { resourceVersion, annotations: effect.annotations } };
      return await unlessMovedOn(
        client.patch(
          effect.type,
          { namespace, name },
          { type: "merge", body },
          { fieldManager, ...(signal ? { signal } : {}) },
        ),
      );
    }
    case "apply": {
      await client.apply(effect.type, effect.object as DeepReadonly<never>, {
        fieldManager: managerOf(effect, fieldManager),
        ...(signal ? { signal } : {}),
      });
      return true;
    }
    case "access-secret": {
      const { namespace = "", name: app = "" } = effect.object.metadata;
      const secret = {
        metadata: {
          name: effect.name,
          namespace,
          labels: { [labels.app]: app },
          ownerReferences: [controllerReference(effect.object)],
        },
        type: "Opaque",
        stringData: { agentToken: randomBytes(24).toString("base64url"), password: randomBytes(24).toString("base64url") },
      };
      try {
        await client.create(Secret, secret, { fieldManager, ...(signal ? { signal } : {}) });
      } catch (error) {
        if (!isAlreadyExists(error)) throw error;
      }
      return true;
    }
    case "delete": {
      try {
        await client.delete(effect.type, effect.key, { preconditions: { uid: effect.uid }, ...(signal ? { signal } : {}) });
      } catch (error) {
        if (!isNotFound(error) && !isConflict(error)) throw error;
      }
      return true;
    }
    case "call": {
      const result = await context.agents.call(effect.ip, await context.agentToken(), effect.call);
      if (result.kind === "unreachable") {
        const status = effect.after(result);
        if (status !== undefined) return await context.writeStatus(status);
        throw new AgentUnreachable(`${effect.call.method} on ${effect.ip}: ${result.message}`);
      }
      const status = effect.after(result);
      if (status !== undefined) return await context.writeStatus(status);
      // A refused Stop must not be followed by the deletion.
      return result.kind !== "refused";
    }
  }
}

/** The role's label of a Pod is applied apart from the Pod, so that neither takes the other's fields away. */
function managerOf(effect: Extract<Effect, { kind: "apply" }>, fieldManager: string): string {
  return effect.type.kind === "Pod" && !("spec" in effect.object) ? `${fieldManager}-role` : fieldManager;
}

async function unlessMovedOn(write: Promise<unknown>): Promise<boolean> {
  try {
    await write;
    return true;
  } catch (error) {
    if (isConflict(error)) return false;
    throw error;
  }
}
