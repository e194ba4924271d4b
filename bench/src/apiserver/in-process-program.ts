import { systemClock } from "@keelson/api-machinery/time";
import { createApiServer, systemRandom } from "@keelson/apiserver";
import { createClient } from "@keelson/client";
import { keelsonTarget } from "./keelson-target.ts";
import { measureLoad } from "./load.ts";

/** Measures an API server in this process, with durable writes. Argument: DATA_DIR. Prints a `LoadRun`. */
const dataDir = process.argv[2] ?? "";
const server = await createApiServer({ storage: { dataDir }, clock: systemClock, random: systemRandom });
const client = createClient({ transport: server.transport(), fieldManager: "bench" });
const run = await measureLoad(keelsonTarget(client));
await client.close();
await server.close();
console.log(JSON.stringify(run));
