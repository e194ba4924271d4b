import type { Client } from "@keelson/client";
import { listenForShutdown } from "@keelson/controller";
import type { FlagValues } from "@keelson/operator";
import { connectCluster } from "../../connect-cluster.ts";

/** Exit status after Ctrl-C. */
const interrupted = 130;

/**
 * Runs a command against the cluster that `--kubeconfig` and `--context` name. Resolves to its exit status, or to 130 after Ctrl-C.
 * **Errors**: rejects if no usable kubeconfig is found, and with the errors of the command.
 */
export async function withCluster(
  flags: FlagValues,
  run: (client: Client, signal: AbortSignal) => Promise<number>,
  options: { readonly fieldManager?: string } = {},
): Promise<number> {
  const shutdown = listenForShutdown();
  const { signal } = shutdown;
  try {
    const client = await connectCluster(flags, options);
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
