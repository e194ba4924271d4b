import { arch, constants, cpus, platform, totalmem } from "node:os";
import { parseArgs } from "node:util";
import { type Benchmark, type Figure, renderFigures } from "./figure.ts";
import { removeLeftovers } from "./folder.ts";
import { MissingPeerError } from "./missing-peer.ts";
import { apiServerCreates } from "./rows/apiserver/apiserver-creates.ts";
import { apiServerLists } from "./rows/apiserver/apiserver-lists.ts";
import { apiServerLoad } from "./rows/apiserver/apiserver-load.ts";
import { changeTask } from "./rows/middleware/change-task.ts";
import { coldStart } from "./rows/product/cold-start.ts";
import { eventLoopStall } from "./rows/apiserver/event-loop-stall.ts";
import { idleMemory } from "./rows/product/idle-memory.ts";
import { importTime } from "./rows/runtime/import-time.ts";
import { loadMemory } from "./rows/apiserver/load-memory.ts";
import { mpiJob } from "./rows/mpi/mpi-job.ts";
import { mpiKills } from "./rows/mpi/mpi-kills.ts";
import { mpiQueue } from "./rows/mpi/mpi-queue.ts";
import { mpiRun } from "./rows/mpi/mpi-run.ts";
import { pods } from "./rows/product/pods.ts";
import { programStart } from "./rows/product/program-start.ts";
import { runtimeInformers } from "./rows/runtime/runtime-informers.ts";
import { runtimeQueue } from "./rows/runtime/runtime-queue.ts";
import { runtimeReconciles } from "./rows/runtime/runtime-reconciles.ts";
import { sandbox } from "./rows/sandboxes/sandbox.ts";
import { sandboxLoad } from "./rows/sandboxes/sandbox-load.ts";
import { taskLatency } from "./rows/robots/task-latency.ts";
import { storedObjects } from "./rows/apiserver/stored-objects.ts";
import { testScale } from "./rows/testplane/test-scale.ts";
import { testStep } from "./rows/testplane/test-step.ts";
import { watchFanOut } from "./rows/apiserver/watch-fan-out.ts";

const benchmarks: readonly Benchmark[] = [
  coldStart,
  taskLatency,
  changeTask,
  testStep,
  testScale,
  mpiJob,
  mpiRun,
  mpiQueue,
  mpiKills,
  sandbox,
  sandboxLoad,
  pods,
  programStart,
  apiServerCreates,
  apiServerLists,
  apiServerLoad,
  watchFanOut,
  eventLoopStall,
  storedObjects,
  loadMemory,
  runtimeQueue,
  runtimeReconciles,
  runtimeInformers,
  importTime,
  idleMemory,
];

const { values } = parseArgs({
  options: {
    help: { type: "boolean", short: "h" },
    only: { type: "string" },
    output: { type: "string", default: "table" },
  },
});

const names = benchmarks.map((benchmark) => benchmark.name).join(", ");

/** Runs the selected benchmarks. A benchmark that fails costs its own figures only. Returns whether all succeeded. */
async function runBenchmarks(
  selected: readonly Benchmark[],
): Promise<{ readonly figures: readonly Figure[]; readonly isComplete: boolean }> {
  const figures: Figure[] = [];
  let isComplete = true;
  for (const benchmark of selected) {
    process.stderr.write(`${benchmark.name} ...\n`);
    try {
      figures.push(...(await benchmark.run()));
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      if (error instanceof MissingPeerError) process.stderr.write(`  skipped: ${reason}\n`);
      else {
        isComplete = false;
        process.stderr.write(`  failed: ${reason.split("\n")[0]}\n`);
        if (process.env.KEELSON_DEBUG && error instanceof Error) process.stderr.write(`${error.stack}\n`);
      }
    }
  }
  return { figures, isComplete };
}

async function main(): Promise<number> {
  if (values.help) {
    console.log(`npm run bench -- [--only NAME,...] [--output table|json]

Measures Keelson and its peers on this machine, in the same run.
Benchmarks: ${names}`);
    return 0;
  }
  const only = values.only?.split(",");
  const unknown = only?.filter((name) => benchmarks.every((benchmark) => benchmark.name !== name)) ?? [];
  if (unknown.length > 0) {
    console.error(`--only: unknown benchmark ${unknown.join(", ")}: must be one or more of ${names}`);
    return 2;
  }
  const { figures, isComplete } = await runBenchmarks(benchmarks.filter((each) => only?.includes(each.name) ?? true));
  const machine = {
    node: process.versions.node,
    platform: platform(),
    arch: arch(),
    cpus: cpus().length,
    cpu: cpus()[0]?.model ?? "",
    memoryBytes: totalmem(),
  };
  if (values.output === "json") console.log(JSON.stringify({ machine, figures }, undefined, 2));
  else console.log(`\nNode.js ${machine.node}, ${machine.cpus} cpus (${machine.cpu.trim()})\n\n${renderFigures(figures)}`);
  return isComplete ? 0 : 1;
}

process.on("exit", removeLeftovers);
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(128 + constants.signals[signal]));
// Clients of killed servers may keep sockets open, so do not wait for the event loop to become empty.
process.exit(await main());
