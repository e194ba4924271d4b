import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "@keelson/api-machinery/time";
import { createApiServer, systemRandom } from "@keelson/apiserver";
import { createClient } from "@keelson/client";
import { keelsonTarget } from "./keelson-target.ts";
import { measureLoad } from "./load.ts";

/** The load of an API server in this process, durable writes and all. Prints what {@link measureLoad} found. */
const dataDir = mkdtempSync(join(tmpdir(), "keelson-bench-"));
const server = await createApiServer({ storage: { dataDir }, clock: systemClock, random: systemRandom });
const client = createClient({ transport: server.transport(), fieldManager: "bench" });
const run = await measureLoad(keelsonTarget(client));
await client.close();
await server.close();
rmSync(dataDir, { recursive: true, force: true });
console.log(JSON.stringify(run));
