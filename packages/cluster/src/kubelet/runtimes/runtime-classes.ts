import { isAlreadyExists } from "@keelson/api-machinery";
import { RuntimeClass } from "@keelson/api-machinery/kinds";
import type { Client } from "@keelson/client";
import type { NodeContext } from "../node-context.ts";
import type { PodView } from "../pod/pod-view.ts";

/**
 * Creates a RuntimeClass for each handler if it does not exist. Existing ones are not changed. With `nodeSelector`, its Pods run only on
 * Nodes with these labels.
 */
export async function ensureRuntimeClasses(
  client: Client,
  handlers: readonly string[],
  nodeSelector?: Readonly<Record<string, string>>,
): Promise<void> {
  for (const handler of handlers) {
    try {
      await client.create(RuntimeClass, {
        metadata: { name: handler },
        handler,
        ...(nodeSelector && { scheduling: { nodeSelector } }),
      });
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
    }
  }
}

/** The handler of a Pod: that of its RuntimeClass, else the node's default. `undefined` if the RuntimeClass does not exist. */
export function runtimeHandler(
  { objects, defaultRuntime }: Pick<NodeContext, "objects" | "defaultRuntime">,
  { spec }: PodView,
): Promise<string | undefined> {
  return spec.runtimeClassName === undefined ? Promise.resolve(defaultRuntime) : objects.runtimeHandler(spec.runtimeClassName);
}
