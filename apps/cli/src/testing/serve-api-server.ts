import { systemClock } from "@keelson/api-machinery/time";
import { serveApi, systemRandom } from "@keelson/apiserver";

/** Serves only the API, as `keelson up` does: `ARGS` are the data directory and options as JSON. */
export async function serveApiServer([dataDir = "", options = "{}"]: readonly string[]): Promise<void> {
  const { port = 0, ...storage } = JSON.parse(options) as { readonly historyEvents?: number; readonly port?: number };
  await serveApi({ dataDir, port, clock: systemClock, random: systemRandom, storage });
}
