import { arch, cpus, platform, totalmem } from "node:os";
import { parseArgs } from "node:util";
import { type Figure, renderFigures } from "./figure.ts";
import { apiServerLoad } from "./rows/apiserver-load.ts";
import { changeTask } from "./rows/change-task.ts";
import { coldStart } from "./rows/cold-start.ts";
import { idleMemory } from "./rows/idle-memory.ts";
import { importTime } from "./rows/import-time.ts";
import { mpiJob } from "./rows/mpi-job.ts";
import { pods } from "./rows/pods.ts";
import { programStart } from "./rows/program-start.ts";
import { runtimeInformers } from "./rows/runtime-informers.ts";
import { runtimeQueue } from "./rows/runtime-queue.ts";
import { runtimeReconciles } from "./rows/runtime-reconciles.ts";
import { sandbox } from "./rows/sandbox.ts";
import { taskLatency } from "./rows/task-latency.ts";
import { storedObjects } from "./rows/stored-objects.ts";
import { testStep } from "./rows/test-step.ts";
import { watchFanOut } from "./rows/watch-fan-out.ts";

const benchmarks = [
  coldStart,
  taskLatency,
  changeTask,
  testStep,
  mpiJob,
  sandbox,
  pods,
  programStart,
  apiServerLoad,
  watchFanOut,
  storedObjects,
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

if (values.help) {
  console.log(`npm run bench -- [--only NAME,...] [--output table|json]

Measures, on this machine and in this run, each figure of Keelson and of the peer beside it.
Benchmarks: ${benchmarks.map((benchmark) => benchmark.name).join(", ")}`);
} else {
  const only = values.only?.split(",");
  const unknown = only?.filter((name) => benchmarks.every((benchmark) => benchmark.name !== name)) ?? [];
  if (unknown.length > 0) {
    console.error(
      `--only: there is no ${unknown.join(", ")}; there is ${benchmarks.map((benchmark) => benchmark.name).join(", ")}`,
    );
    process.exit(2);
  }
  const figures: Figure[] = [];
  for (const benchmark of benchmarks.filter((each) => only?.includes(each.name) ?? true)) {
    process.stderr.write(`${benchmark.name} ...\n`);
    figures.push(...(await benchmark.run()));
  }
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
}
