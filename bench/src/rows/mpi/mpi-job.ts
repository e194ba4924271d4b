import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { connect } from "@keelson/client";
import { RhinoJob } from "@keelson/mpi";
import { type Benchmark, percentile } from "../../figure.ts";
import { startLocalKeelson } from "../../local-keelson.ts";
import { MissingPeerError } from "../../missing-peer.ts";

const compiler = "/usr/bin/mpicc.openmpi";
const jobs = 10;
const ranks = 2;
const namespace = "default";
const source = fileURLToPath(new URL("../../../../examples/mpi/pi.c", import.meta.url));

/**
 * From the request that creates a RhinoJob, over HTTPS, to its status Completed: launcher, workers, the program, and the status update.
 * The program is pi of the examples with few iterations, so that mainly the launch is measured. Needs Open MPI.
 */
export const mpiJob: Benchmark = {
  name: "mpi-job",
  async run() {
    if (!existsSync(compiler))
      throw new MissingPeerError(`${compiler} not found; install it with apt-get install libopenmpi-dev openmpi-bin`);
    const keelson = await startLocalKeelson();
    const client = await connect({ kubeconfig: keelson.kubeconfig });
    try {
      const program = join(keelson.dir, "pi");
      execFileSync(compiler, ["-O2", "-o", program, source]);
      const bareWords = ["--allow-run-as-root", "--oversubscribe", "-n", String(ranks), program, "1000"];
      const watch = await client.watch(RhinoJob, { namespace });
      const events = watch[Symbol.asyncIterator]();
      const wholes: number[] = [];
      const bares: number[] = [];
      for (let index = 0; index < jobs; index++) {
        const name = `bench-${index}`;
        const started = performance.now();
        await client.create(RhinoJob, { metadata: { name, namespace }, spec: specOf(program) });
        for (let status = ""; status !== "Completed"; ) {
          const { value, done } = await events.next();
          if (done) throw new Error("the watch of RhinoJobs ended");
          const job = value.object as RhinoJob;
          if (job.metadata.name !== name) continue;
          status = job.status?.jobStatus ?? "";
          if (status === "Failed") throw new Error(`${name}: ${job.status?.message ?? ""}`);
        }
        wholes.push(performance.now() - started);
        await client.delete(RhinoJob, { namespace, name }, { propagationPolicy: "Background" });
        const bareStarted = performance.now();
        execFileSync("mpiexec.openmpi", bareWords, { stdio: "ignore" });
        bares.push(performance.now() - bareStarted);
      }
      watch.close();
      return [0.5, 0.9].map((fraction) => ({
        name: `RhinoJob of ${ranks} ranks created -> Completed, p${fraction * 100}`,
        unit: "ms" as const,
        ours: percentile(wholes, fraction),
        peer: { name: `mpiexec -n ${ranks} of the same program`, value: percentile(bares, fraction) },
        original: { what: "the launcher's probe starts after 1 s", value: 1000 },
        note: `${jobs} jobs, sequentially, Open MPI`,
      }));
    } finally {
      await client.close();
      await keelson.stop();
    }
  },
};

const specOf = (program: string): RhinoJob["spec"] => ({
  image: "local",
  parallelism: ranks,
  ttl: 600,
  appExec: program,
  appArgs: ["1000"],
  memoryAllocationMode: "FixedPerCoreMemory",
  memoryAllocationSize: 2,
  mpiImplementation: "OpenMPI",
});
