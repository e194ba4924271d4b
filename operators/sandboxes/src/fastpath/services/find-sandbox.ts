import type { DeepReadonly } from "@keelson/api-machinery";
import type { Cache } from "@keelson/controller";
import { Sandbox } from "../../api/sandbox.ts";

/** The Sandbox with this name or id. An empty namespace is `default`. */
export function findSandbox(
  { sandboxName, namespace }: { readonly sandboxName: string; readonly namespace: string },
  cache: Cache,
): DeepReadonly<Sandbox> | undefined {
  const key = { namespace: namespace || "default", name: sandboxName };
  return cache.get(Sandbox, key) ?? cache.list(Sandbox, { namespace: key.namespace, index: ["sandboxID", sandboxName] })[0];
}
