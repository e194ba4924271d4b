import { type DeepReadonly, type KubernetesObject, setOwn } from "@keelson/api-machinery";
import type { ServedResource } from "../../registry/served-resource.ts";
import { statusMetadata } from "./update-rules.ts";

/** The part of the next state that a write through this endpoint may change: the status, or everything else. */
export function withOwnPart(
  resource: ServedResource,
  subresource: string,
  next: KubernetesObject,
  live: DeepReadonly<KubernetesObject>,
): KubernetesObject {
  if (subresource === "status") return withStatusOf(resource, next, live);
  const own = resource.subresources?.find(({ name }) => name === subresource);
  if (resource.hasStatus && subresource !== "binding" && own?.changesStatus !== true) keepStatus(next, live);
  return next;
}

function keepStatus(next: KubernetesObject, live: DeepReadonly<KubernetesObject>): void {
  if (Object.hasOwn(live, "status")) setOwn(next as unknown as Record<string, unknown>, "status", Reflect.get(live, "status"));
  else Reflect.deleteProperty(next, "status");
}

/** The result of a write to `status`: the stored object with the new status and, for some kinds, new labels and annotations. */
function withStatusOf(
  resource: ServedResource,
  next: KubernetesObject,
  live: DeepReadonly<KubernetesObject>,
): KubernetesObject {
  const { uid, managedFields } = next.metadata;
  const taken: Record<string, unknown> = { uid, managedFields };
  for (const name of statusMetadata(resource)) taken[name] = next.metadata[name];
  const metadata: Record<string, unknown> = {};
  for (const [name, value] of Object.entries({ ...live.metadata, ...taken })) {
    if (value !== undefined) setOwn(metadata, name, value);
  }
  const { status } = next as { status?: unknown };
  const result: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(live)) {
    if (name === "metadata") result["metadata"] = metadata;
    else if (name !== "status") setOwn(result, name, value);
    else if (status !== undefined) result["status"] = status;
  }
  if (status !== undefined) result["status"] = status;
  return result as unknown as KubernetesObject;
}
