import { systemClock } from "@keelson/api-machinery/time";
import { runTool } from "./run-tool.ts";
import type { ToolPlan } from "./tool-plan.ts";
import { reportLine } from "./tool-report.ts";

/*
 * The program in the Pods of the steps http, logs, exec and portForward. Its plan is the environment variable KEELSON_TOOL. Its last
 * line is its report; it exits with 0 however the action ended.
 */

const plan = JSON.parse(process.env.KEELSON_TOOL ?? "null") as ToolPlan | null;
if (plan === null) {
  process.stderr.write("missing plan: set KEELSON_TOOL in the environment\n");
  process.exit(2);
}
const stop = new AbortController();
for (const name of ["SIGTERM", "SIGINT"] as const) process.once(name, () => stop.abort());
const connection = async () => (await import("@keelson/client")).inClusterConnection();
const report = await runTool({ plan, clock: systemClock, signal: stop.signal, connection });
await new Promise<void>((resolve) => process.stdout.write(`${reportLine(report)}\n`, () => resolve()));
process.exit(0);
