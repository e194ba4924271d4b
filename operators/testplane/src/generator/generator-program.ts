import { monitorEventLoopDelay } from "node:perf_hooks";
import { systemClock } from "@keelson/api-machinery/time";
import { createRequester } from "./create-requester.ts";
import { runGenerator } from "./run-generator.ts";
import type { LoadPlan } from "./load-plan.ts";

/*
 * The program in the Pods of a load generator. Its plan is the environment variable KEELSON_LOAD. It prints a report every second and
 * at the end, and exits with 0 however the requests ended: the success criteria of the test decide.
 */

const plan = JSON.parse(process.env.KEELSON_LOAD ?? "null") as LoadPlan | null;
if (plan === null) {
  process.stderr.write("missing plan: set KEELSON_LOAD in the environment\n");
  process.exit(2);
}
const stop = new AbortController();
for (const name of ["SIGTERM", "SIGINT"] as const) process.once(name, () => stop.abort());
const requester = await createRequester(plan).catch((error: unknown) => {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exit(1);
});
const resolutionMs = 10;
const delays = monitorEventLoopDelay({ resolution: resolutionMs });
delays.enable();
await runGenerator({
  plan,
  requester,
  clock: systemClock,
  maxPauseMs: () => Math.max(delays.max / 1e6 - resolutionMs, 0),
  print: (line) => new Promise((resolve) => process.stdout.write(`${line}\n`, () => resolve())),
  signal: stop.signal,
});
process.exit(0);
