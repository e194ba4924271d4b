import { type Client, connect } from "@keelson/client";
import { listenForShutdown } from "@keelson/controller";
import type { FlagValues } from "@keelson/operator";

/** Exit status after Ctrl-C. */
const interrupted = 130;

/**
 * Runs a command against the cluster that `--kubeconfig` and `--context` name. Resolves to its exit status, or to 130 after Ctrl-C.
 * **Errors**: rejects if there is no usable kubeconfig, or as the command does.
 */
export async function withCluster(
  flags: FlagValues,
  run: (client: Client, signal: AbortSignal) => Promise<number>,
  options: { readonly fieldManager?: string } = {},
): Promise<number> {
  const shutdown = listenForShutdown();
  const { signal } = shutdown;
  try {
    const client = await connect({ kubeconfig: textOf(flags.kubeconfig), context: textOf(flags.context), ...options });
    try {
      return await run(client, signal);
    } finally {
      await client.close();
    }
  } catch (error) {
    if (signal.aborted && error === signal.reason) return interrupted;
    throw error;
  } finally {
    shutdown.dispose();
  }
}

const textOf = (flag: FlagValues[string]): string | undefined => (typeof flag === "string" ? flag : undefined);
