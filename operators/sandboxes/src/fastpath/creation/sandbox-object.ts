import { type DeepReadonly, ignoreNotFound, isStatusError } from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import {
  allocationAnnotation,
  cleanupFinalizer,
  createdByFastPath,
  createdByLabel,
  createTimestampAnnotation,
  requestIdAnnotation,
} from "../../api/names.ts";
import { Sandbox } from "../../api/sandbox.ts";
import type { Intent } from "./intent-log.ts";

/** The object of a sandbox that already runs. Its annotation names the agent, so that the controller does not start it again. */
export function objectOf(intent: Intent): Parameters<Client["create"]>[1] & Omit<Sandbox, "apiVersion" | "kind" | "status"> {
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

/** Whether the object of an intent was written. **Errors**: those of the API. */
export async function hasObject(intent: Intent, client: Client): Promise<boolean> {
  return (await findObject(intent, client)) !== undefined;
}

/** Deletes the object of an intent, if it was written. **Errors**: those of the API, `Conflict` if another object replaced it in the meantime. */
export async function deleteObject(intent: Intent, client: Client): Promise<void> {
  const uid = (await findObject(intent, client))?.metadata.uid;
  if (uid === undefined) return;
  const { namespace, name } = intent;
  await ignoreNotFound(client.delete(Sandbox, { namespace, name }, { preconditions: { uid } }));
}

async function findObject({ namespace, name, sandboxId }: Intent, client: Client): Promise<DeepReadonly<Sandbox> | undefined> {
  const present = await ignoreNotFound(client.get(Sandbox, { namespace, name }));
  return present?.metadata.annotations?.[allocationAnnotation]?.includes(sandboxId) === true ? present : undefined;
}

/** Whether the API rejected a request, rather than failed or asked for a retry. */
export function isRejection(error: unknown): boolean {
  const code = isStatusError(error) ? (error.status.code ?? 500) : 500;
  return code >= 400 && code < 500 && code !== 429 && code !== 408;
}
