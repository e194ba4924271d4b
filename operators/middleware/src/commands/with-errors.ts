import { isMissingKind, isNotFound } from "@keelson/api-machinery";
import type { CommandContext } from "@keelson/operator";
import { PluginError } from "../plugin/read-plugin.ts";

/** Runs a command, and prints the errors that a user can correct: an object that does not exist, or a plugin that is not valid. */
export async function withErrors(context: CommandContext, act: (context: CommandContext) => Promise<number>): Promise<number> {
  try {
    return await act(context);
  } catch (error) {
    if (!(isNotFound(error) && !isMissingKind(error)) && !(error instanceof PluginError)) throw error;
    context.stderr.write(`${error.message}\n`);
    return 1;
  }
}
