import { isNotFound, type ObjectKey } from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import type { CommandContext } from "./operator.ts";

/** Options of {@link changeEach}. */
export interface ChangeEachOptions {
  /** Kind of the objects in lower case, for messages: `robot`. */
  readonly kind: string;
  readonly namespace: string;
  /** What was done, for messages: `deleted`. */
  readonly done: string;
  /** Added to the message about an object that does not exist, such as the command that lists them. Default: nothing. */
  readonly hint?: string;
  /** Resolves to why the object cannot be changed, for messages: `has already ended`. Any other value means that it was changed. */
  readonly change: (client: Client, key: ObjectKey) => Promise<unknown>;
}

/**
 * Changes every object that the arguments of a command name, and prints one line for each. Returns 1 if one of them
 * does not exist or cannot be changed.
 */
export async function changeEach(
  { args, stdout, stderr, client: connect }: CommandContext,
  { kind, namespace, done, hint, change }: ChangeEachOptions,
): Promise<number> {
  const client = await connect();
  let exitCode = 0;
  try {
    for (const name of args) {
      try {
        const fault = await change(client, { namespace, name });
        if (typeof fault === "string") {
          stderr.write(`${kind} ${name} ${fault}\n`);
          exitCode = 1;
        } else stdout.write(`${kind} ${name} ${done}\n`);
      } catch (error) {
        if (!isNotFound(error)) throw error;
        stderr.write(`${kind} ${name} not found in namespace ${namespace}${hint === undefined ? "" : `; ${hint}`}\n`);
        exitCode = 1;
      }
    }
    return exitCode;
  } finally {
    await client.close();
  }
}
