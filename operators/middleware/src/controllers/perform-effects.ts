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
import type { AgentClient } from "../agent/agent-client.ts";
import { labels } from "../api/names.ts";
import { AgentCallError } from "./agent-call-error.ts";
import type { Effect } from "./effect.ts";

/** Inputs of {@link performEffects}. */
export interface EffectContext {
  readonly client: Client;
  readonly fieldManager: string;
  readonly signal?: AbortSignal;
  readonly agents: AgentClient;
  /** Reads the token of the App's agents. */
  readonly agentToken: () => Promise<string>;
  /** Generates a secret as printable text. */
  readonly generateSecret: () => string;
  /** Object whose status records the result of a call. */
  readonly answersInto?: { readonly type: ResourceType; readonly object: DeepReadonly<KubernetesObject> };
}

/**
 * Performs effects in order. On a conflict the rest is dropped: the change of the object triggers the next decision.
 *
 * **Errors**: those of the client, and an {@link AgentCallError}. The retry decides again from the recorded
 * state.
 */
export async function performEffects(effects: readonly Effect[], context: EffectContext): Promise<void> {
  for (const effect of effects) if (!(await performEffect(effect, context))) return;
}

async function performEffect(effect: Effect, context: EffectContext): Promise<boolean> {
  const { client, fieldManager, signal } = context;
  switch (effect.kind) {
    case "status": {
      const { name = "", namespace, resourceVersion } = effect.object.metadata;
      // This controller owns the whole status, so fields that are left out are removed.
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
        stringData: { agentToken: context.generateSecret(), password: context.generateSecret() },
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
        await client.delete(effect.type, effect.key, {
          preconditions: { uid: effect.uid },
          ...(effect.gracePeriodSeconds === undefined ? {} : { gracePeriodSeconds: effect.gracePeriodSeconds }),
          ...(signal ? { signal } : {}),
        });
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
        return answersInto !== undefined && (await performEffect({ kind: "status", ...answersInto, status }, context));
      }
      const { method } = effect.call;
      if (result.kind === "unreachable")
        throw new AgentCallError("Unreachable", `${method} on ${effect.ip}: ${result.message}`);
      // Effects after a refused call, such as the deletion after a Stop, must not happen.
      if (result.kind === "refused") throw new AgentCallError("Refused", `${method} on ${effect.ip}: ${result.message}`);
      return true;
    }
  }
}

/** The role label of a Pod has its own field manager, so that applying the Pod does not remove it. */
function managerOf(effect: Extract<Effect, { kind: "apply" }>, fieldManager: string): string {
  return effect.type.kind === "Pod" && !("spec" in effect.object) ? `${fieldManager}-role` : fieldManager;
}
