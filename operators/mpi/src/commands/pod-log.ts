import { isNotFound, isStatusError, type KubernetesObject, type ResourceType } from "@keelson/api-machinery";
import type { Client } from "@keelson/client";

/** What a Pod has written so far; `undefined` where it has not started or is gone. */
export async function podLog(
  client: Client,
  pod: { readonly namespace: string; readonly name: string },
  signal: AbortSignal,
): Promise<string | undefined> {
  // A log is addressed as an object named "log" below its Pod, and comes as text.
  const logOfPod: ResourceType<KubernetesObject> = {
    group: "",
    version: "v1",
    kind: "Pod",
    plural: `pods/${encodeURIComponent(pod.name)}`,
    scope: "Namespaced",
  };
  try {
    const answer: unknown = await client.get(logOfPod, { namespace: pod.namespace, name: "log" }, { signal });
    return typeof answer === "string" ? answer : JSON.stringify(answer);
  } catch (error) {
    // A container that has not started has no log: Kubernetes answers 400.
    if (isNotFound(error) || isStatusError(error, "BadRequest")) return undefined;
    throw error;
  }
}
