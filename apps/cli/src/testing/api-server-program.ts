import { systemClock } from "@keelson/api-machinery/time";
import { serveApi, systemRandom } from "@keelson/apiserver";

/* Only the API server, as `keelson up` runs it: `api-server-program.js DIR OPTIONS`. Tests kill it a hundred times, so it is bundled. */

const [dataDir = "", options = "{}"] = process.argv.slice(2);
const { port = 0, ...storage } = JSON.parse(options) as { readonly historyEvents?: number; readonly port?: number };
await serveApi({ dataDir, port, clock: systemClock, random: systemRandom, storage });
process.stdout.write("ready\n");
