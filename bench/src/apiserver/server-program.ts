import { monitorEventLoopDelay } from "node:perf_hooks";
import { createInterface } from "node:readline";
import { systemClock } from "@keelson/api-machinery/time";
import { serveApi, systemRandom } from "@keelson/apiserver";
import { startIdleCollection } from "keelson/testing";
import { TurnMeter } from "./turns.ts";

/**
 * An API server. Argument: DATA_DIR. Prints when it serves, with the longest event loop block of its start in ms. For each line of input it
 * prints the longest turns of its event loop since the previous line.
 */
const delay = monitorEventLoopDelay({ resolution: 1 });
delay.enable();
await serveApi({ dataDir: process.argv[2] ?? "", port: 0, clock: systemClock, random: systemRandom });
await new Promise((resolve) => setImmediate(resolve));
delay.disable();
console.log(`serves ${JSON.stringify({ maxBlockMs: delay.max / 1e6 })}`);
// As the processes of `keelson up`.
startIdleCollection(systemClock);
let meter: TurnMeter | undefined;
for await (const _ of createInterface({ input: process.stdin })) {
  if (meter === undefined) (meter = new TurnMeter()).start();
  console.log(JSON.stringify(meter.take()));
}
