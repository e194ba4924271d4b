import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { systemClock } from "@keelson/api-machinery/time";
import type { Transport } from "@keelson/api-machinery/transport";
import { type Client, connect, KubeconfigError } from "@keelson/client";
import type { FlagValues } from "@keelson/operator";

/**
 * Connects to the cluster that `--kubeconfig` and `--context` name. **Errors**: `KubeconfigError`; if no kubeconfig is set, but
 * `keelson up` has one here, the message names the command that sets it.
 */
export async function connectCluster(flags: FlagValues, options: { readonly fieldManager?: string } = {}): Promise<Client> {
  try {
    return await connect({
      ...{ kubeconfig: textOf(flags["kubeconfig"]), context: textOf(flags["context"]) },
      ...(flags["verbose"] === true ? { wrapTransport: await createTrace() } : {}),
      ...options,
    });
  } catch (error) {
    const isUnset = flags["kubeconfig"] === undefined && !process.env["KUBECONFIG"];
    const dataDir = process.env["KEELSON_DATA_DIR"] || ".keelson";
    if (!(error instanceof KubeconfigError) || !isUnset || !existsSync(resolve(dataDir, "kubeconfig"))) throw error;
    throw new KubeconfigError(`${error.message}; for keelson up: eval "$(keelson kubeconfig --export)"`, { cause: error });
  }
}

async function createTrace(): Promise<(transport: Transport) => Transport> {
  const { traceRequests } = await import("./trace-requests.ts");
  const { createLogger } = await import("./logger.ts");
  const log = createLogger({ level: "debug" });
  return (transport) => traceRequests(transport, systemClock, log);
}

const textOf = (flag: FlagValues[string]): string | undefined => (typeof flag === "string" ? flag : undefined);
