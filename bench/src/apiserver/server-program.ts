import { monitorEventLoopDelay } from "node:perf_hooks";
import { systemClock } from "@keelson/api-machinery/time";
import { serveApi, systemRandom } from "@keelson/apiserver";

/** An API server. Argument: DATA_DIR. Prints when it serves, with the longest event loop block of its start in ms. */
const delay = monitorEventLoopDelay({ resolution: 1 });
delay.enable();
await serveApi({ dataDir: process.argv[2] ?? "", port: 0, clock: systemClock, random: systemRandom });
await new Promise((resolve) => setImmediate(resolve));
delay.disable();
console.log(`serves ${JSON.stringify({ maxBlockMs: delay.max / 1e6 })}`);
