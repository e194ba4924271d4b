import { monitorEventLoopDelay } from "node:perf_hooks";
import { systemClock } from "@keelson/api-machinery/time";
import { serveApi, systemRandom } from "@keelson/apiserver";

/** An API server on the folder named by its argument. Prints how long its start blocked the event loop at most, ms, when it serves. */
const delay = monitorEventLoopDelay({ resolution: 1 });
delay.enable();
await serveApi({ dataDir: process.argv[2] ?? "", port: 0, clock: systemClock, random: systemRandom });
await new Promise((resolve) => setImmediate(resolve));
delay.disable();
console.log(`serves ${JSON.stringify({ longestBlockMs: delay.max / 1e6 })}`);
