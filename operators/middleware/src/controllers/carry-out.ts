import { randomBytes } from "node:crypto";
import {
  controllerReference,
  type DeepReadonly,
  isAlreadyExists,
  isConflict,
  isNotFound,
  type KubernetesObject,
  type ResourceType,
} from "@keelson/api-machinery";
import { Secret } from "@keelson/api-machinery/kinds";
import { ignoreConflict } from "@keelson/controller";
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
  readonly answersInto?: { readonly type: ResourceType; readonly object: DeepReadonly<KubernetesObject> };
}

/** A call that was not answered: to be tried again. */
export class AgentUnreachable extends Error {
  override readonly name = "AgentUnreachable";
  readonly code = "AgentUnreachable";
}

/** A call that an agent refused, with nothing on record that says so: to be tried again. */
export class AgentRefused extends Error {
  override readonly name = "AgentRefused";
  readonly code = "AgentRefused";
}

/**
 * Carries out effects one after another. Where an object has moved on, the rest is left: its change brings the next decision.
 *
 * **Errors**: those of the client, {@link AgentUnreachable} and {@link AgentRefused}; the retry, with growing waits, decides anew
 * from what is on record.
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
      const written = await ignoreConflict(
        client.applyStatus(effect.type, configuration, {
          fieldManager,
          signal: signal as AbortSignal,
        }),
      );
      return written !== undefined;
    }
    case "annotate": {
      const { name = "", namespace, resourceVersion } = effect.object.metadata;
      const body = { metadata: { resourceVersion, annotations: effect.annotations } };
      const written = await ignoreConflict(
        client.patch(
          effect.type,
          { namespace, name },
          { type: "merge", body },
          { fieldManager, ...(signal ? { signal } : {}) },
        ),
      );
      return written !== undefined;
    }
    case "apply": {
      const { name = "" } = effect.object.metadata;
      const configuration = { ...effect.object, metadata: { ...effect.object.metadata, name } };
      await client.apply(effect.type, configuration, {
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
      const status = effect.after(result);
      if (status !== undefined) {
        const { answersInto } = context;
        return answersInto !== undefined && (await carryOutOne({ kind: "status", ...answersInto, status }, context));
      }
      const { method } = effect.call;
      if (result.kind === "unreachable") throw new AgentUnreachable(`${method} on ${effect.ip}: ${result.message}`);
      // What follows a refused call, such as the deletion after a Stop, must not happen.
      if (result.kind === "refused") throw new AgentRefused(`${method} on ${effect.ip}: ${result.message}`);
      return true;
    }
  }
}

/** The role's label of a Pod is applied apart from the Pod, so that neither takes the other's fields away. */
function managerOf(effect: Extract<Effect, { kind: "apply" }>, fieldManager: string): string {
  return effect.type.kind === "Pod" && !("spec" in effect.object) ? `${fieldManager}-role` : fieldManager;
}
