import { join } from "node:path";
import { systemClock } from "@keelson/api-machinery/time";
import { createApiServer, systemRandom } from "@keelson/apiserver";
import { createClient } from "@keelson/client";
import { keelsonTarget } from "./keelson-target.ts";

/** Creates objects. Arguments: DATA_DIR COUNT. Prints the number of objects. */
const [dataDir = "", text = "0"] = process.argv.slice(2);
const count = Number(text);
const server = await createApiServer({
  // Not measured, so writes need not be durable one by one.
  storage: { dataDir: join(dataDir, "storage"), sync: false },
  clock: systemClock,
  random: systemRandom,
});
const client = createClient({ transport: server.transport(), fieldManager: "bench" });
const target = keelsonTarget(client);
let next = 0;
await Promise.all(
  Array.from({ length: 256 }, async () => {
    while (next < count) await target.create(`object-${next++}`);
  }),
);
await client.close();
await server.close();
console.log(JSON.stringify(next));
