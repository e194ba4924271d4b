import type { DeepReadonly, KubernetesObject, ResourceType } from "@keelson/api-machinery";
import { awaitObject, type CommandContext } from "@keelson/operator";

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
  const { name = "", namespace } = object.metadata;
  let last: string | undefined;
  const read = (each: DeepReadonly<T>): DeepReadonly<T> | undefined => {
    const { phase, message } = (each as DeepReadonly<Progress>).status ?? {};
    if (phase === "Completed" || phase === "Failed") return each;
    const line = message === undefined || message === "" ? phase : `${phase}: ${message}`;
    if (line !== undefined && line !== last) stderr.write(`${line}\n`);
    last = line;
    return undefined;
  };
  const ended = await awaitObject(client, type, { namespace, name }, read, signal);
  if (ended === undefined) stderr.write(`${type.kind} ${name} was deleted\n`);
  return ended;
}
