import { isAlreadyExists } from "@keelson/api-machinery";
import { RuntimeClass } from "@keelson/api-machinery/kinds";
import type { Client } from "@keelson/client";

/** Makes a RuntimeClass for each of a node's runtimes, of the same name, where there is none. What somebody changed stays. */
export async function ensureRuntimeClasses(client: Client, handlers: readonly string[]): Promise<void> {
  for (const handler of handlers) {
    try {
      await client.create(RuntimeClass, { metadata: { name: handler }, handler });
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
    }
  }
}
