import { type JsonObject, StatusError } from "@keelson/api-machinery";
import type { Handle } from "./endpoints/outcome.ts";
import { systemUser } from "./system-user.ts";

/**
 * Applies an object that the API server publishes itself, as kube-apiserver's field manager and with force.
 *
 * **Errors**: rejects with a `StatusError` if the apply fails.
 */
export async function applyAsServer(handle: Handle, path: string, body: JsonObject): Promise<void> {
  const outcome = await handle({
    method: "PATCH",
    path,
    query: { fieldManager: "kube-apiserver", force: "true" },
    headers: { "content-type": "application/apply-patch+yaml" },
    body,
    user: systemUser,
    userAgent: "kube-apiserver",
  });
  if (outcome.kind === "status") throw new StatusError(outcome.status);
}
