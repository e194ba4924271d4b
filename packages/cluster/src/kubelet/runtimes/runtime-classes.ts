import { isAlreadyExists } from "@keelson/api-machinery";
import { RuntimeClass } from "@keelson/api-machinery/kinds";
import type { Client } from "@keelson/client";

/** Creates a RuntimeClass for each handler if it does not exist. Existing ones are not changed. */
export async function ensureRuntimeClasses(client: Client, handlers: readonly string[]): Promise<void> {
  for (const handler of handlers) {
    try {
      await client.create(RuntimeClass, { metadata: { name: handler }, handler });
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
    }
  }
}
