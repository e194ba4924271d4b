import {
  controllerReference,
  type DeepReadonly,
  draft,
  isAlreadyExists,
  isConflict,
  isNotFound,
  type KubernetesObject,
  type ResourceType,
} from "@keelson/api-machinery";
import { Secret } from "@keelson/api-machinery/kinds";
import { addFinalizer, ignoreConflict, removeFinalizer } from "@keelson/controller";
import type { Client } from "@keelson/client";
import type { PodObject } from "@keelson/api-machinery/kinds";
import type { AgentClient } from "../agent/agent-client.ts";
import { labels } from "../api/names.ts";
import type { AgentAccess } from "./agent-access.ts";
import { AgentCallError } from "./agent-call-error.ts";
import type { Effect } from "./effect.ts";

/** Inputs of {@link performEffects}. */
export interface EffectContext {
  readonly client: Client;
  readonly fieldManager: string;
  readonly signal?: AbortSignal;
  readonly agents: AgentClient;
  /** Timeout of calls to agents. Default: that of the client. */
  readonly callTimeoutMs?: number;
  /** Reads the access to the App's agents. */
  readonly agentAccess: () => Promise<AgentAccess>;
  /** Generates a secret as printable text. */
  readonly generateSecret: () => string;
  /** Completes a Pod before it is created. Default: unchanged. */
  readonly completePod?: (pod: DeepReadonly<PodObject>) => DeepReadonly<PodObject>;
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

/** False if the rest must be dropped. */
async function performEffect(effect: Effect, context: EffectContext): Promise<boolean> {
  const { client, fieldManager, signal } = context;
  const write = { fieldManager, ...(signal ? { signal } : {}) };
  switch (effect.kind) {
    case "status": {
      const { name = "", namespace, resourceVersion } = effect.object.metadata;
      // This controller owns the whole status, so fields that are left out are removed.
      const configuration = { metadata: { name, namespace, resourceVersion }, status: effect.status };
      return (await ignoreConflict(client.applyStatus(effect.type, configuration, write))) !== undefined;
    }
    case "annotate": {
      const { name = "", namespace, resourceVersion } = effect.object.metadata;
      const body = { metadata: { resourceVersion, annotations: effect.annotations } };
      const written = client.patch(effect.type, { namespace, name }, { type: "merge", body }, write);
      return (await ignoreConflict(written)) !== undefined;
    }
    case "apply": {
      const object = isNewPod(effect.object) ? (context.completePod?.(effect.object) ?? effect.object) : effect.object;
      const { name = "" } = object.metadata;
      const configuration = { ...object, metadata: { ...object.metadata, name } };
      await client.apply(effect.type, configuration, { ...write, fieldManager: managerOf(effect, fieldManager) });
      return true;
    }
    case "create":
      await createObject(effect, context);
      return true;
    case "add-finalizer":
      await addFinalizer(client, effect.type, effect.object, effect.finalizer);
      return true;
    case "remove-finalizer":
      await removeFinalizer(client, effect.type, effect.object, effect.finalizer);
      return true;
    case "access-secret":
      await createAccessSecret(effect, context);
      return true;
    case "delete":
      await deleteObject(effect, context);
      return true;
    case "call":
      return callAgent(effect, context);
  }
}

type EffectOf<K extends Effect["kind"]> = Extract<Effect, { readonly kind: K }>;

/** Creates the Secret of an App, unless it exists. */
async function createAccessSecret({ name, object }: EffectOf<"access-secret">, context: EffectContext): Promise<void> {
  const { client, fieldManager, signal, generateSecret } = context;
  const { namespace = "", name: app = "" } = object.metadata;
  const ownerReferences = [controllerReference(object)];
  const secret = {
    metadata: { name, namespace, labels: { [labels.app]: app }, ownerReferences },
    type: "Opaque",
    stringData: { agentToken: generateSecret(), password: generateSecret() },
  };
  try {
    await client.create(Secret, secret, { fieldManager, ...(signal ? { signal } : {}) });
  } catch (error) {
    if (!isAlreadyExists(error)) throw error;
  }
}

/** Creates an object, unless it exists. */
async function createObject({ type, object }: EffectOf<"create">, context: EffectContext): Promise<void> {
  const { client, fieldManager, signal } = context;
  try {
    await client.create(type, draft(object) as KubernetesObject, { fieldManager, ...(signal ? { signal } : {}) });
  } catch (error) {
    if (!isAlreadyExists(error)) throw error;
  }
}

/** Deletes an object, unless it was replaced. */
async function deleteObject(effect: EffectOf<"delete">, { client, signal }: EffectContext): Promise<void> {
  const { type, key, uid, gracePeriodSeconds } = effect;
  try {
    await client.delete(type, key, {
      preconditions: { uid },
      ...(gracePeriodSeconds === undefined ? {} : { gracePeriodSeconds }),
      ...(signal ? { signal } : {}),
    });
  } catch (error) {
    if (!isNotFound(error) && !isConflict(error)) throw error;
  }
}

async function callAgent(effect: EffectOf<"call">, context: EffectContext): Promise<boolean> {
  const { agents, agentAccess, answersInto, callTimeoutMs } = context;
  const result = await agents.call(effect.ip, await agentAccess(), effect.call, callTimeoutMs);
  const status = effect.after(result);
  if (status !== undefined)
    return answersInto !== undefined && (await performEffect({ kind: "status", ...answersInto, status }, context));
  const { method } = effect.call;
  if (result.kind === "unreachable") throw new AgentCallError("Unreachable", `${method} on ${effect.ip}: ${result.message}`);
  // Effects after a refused call, such as the deletion after a Stop, must not happen.
  if (result.kind === "refused") throw new AgentCallError("Refused", `${method} on ${effect.ip}: ${result.message}`);
  return true;
}

/** Whether an applied object is a whole Pod. Existing Pods are applied without their spec. */
function isNewPod(object: DeepReadonly<KubernetesObject>): object is DeepReadonly<PodObject> {
  return object.kind === "Pod" && "spec" in object;
}

/** The role label of a Pod has its own field manager, so that applying the Pod does not remove it. */
function managerOf(effect: Extract<Effect, { kind: "apply" }>, fieldManager: string): string {
  return effect.type.kind === "Pod" && !isNewPod(effect.object) ? `${fieldManager}-role` : fieldManager;
}
