import type { DeepReadonly, KubernetesObject, ResourceType } from "@keelson/api-machinery";
import type { CommandContext } from "@keelson/operator";

/** The part of a status that {@link waitForEnd} reads. */
interface Progress extends KubernetesObject {
  readonly status?: { readonly phase?: string; readonly message?: string };
}

/**
 * Watches an object until its phase is Completed or Failed, and prints every new message to standard error. Resolves to the last state,
 * or undefined if the object was deleted.
 */
export async function waitForEnd<T extends Progress>(
  context: CommandContext,
  type: ResourceType<T>,
  object: DeepReadonly<T>,
): Promise<DeepReadonly<T> | undefined> {
  const { stderr, signal } = context;
  const client = await context.client();
  const { name = "", namespace, resourceVersion = "" } = object.metadata;
  const watch = await client.watch(type, { namespace, fieldSelector: `metadata.name=${name}`, resourceVersion, signal });
  let last: string | undefined;
  try {
    for await (const event of watch) {
      if (event.type === "BOOKMARK") continue;
      if (event.type === "DELETED") break;
      const { phase, message } = event.object.status ?? {};
      if (phase === "Completed" || phase === "Failed") return event.object as DeepReadonly<T>;
      const line = message === undefined || message === "" ? phase : `${phase}: ${message}`;
      if (line !== undefined && line !== last) stderr.write(`${line}\n`);
      last = line;
    }
  } finally {
    watch.close();
  }
  stderr.write(`${type.kind} ${name} was deleted\n`);
  return undefined;
}
