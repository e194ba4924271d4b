import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { cpus } from "node:os";
import { connect } from "@keelson/client";
import { RhinoJob } from "@keelson/mpi";
import type { Benchmark } from "../../figure.ts";
import { startLocalKeelson } from "../../local-keelson.ts";
import { MissingPeerError } from "../../missing-peer.ts";

const mpiexec = "/usr/bin/mpiexec.openmpi";
const jobs = 50;
const ranks = 2;
/** Number of jobs that fit the machine at a time. */
const atATime = 2;
const workSeconds = 2;
const namespace = "default";

/**
 * Time until {@link jobs} jobs that were created together have all completed, of which the queue admits {@link atATime} at a time. The peer
 * is the same work without a queue and without gaps. Needs Open MPI.
 */
export const mpiQueue: Benchmark = {
  name: "mpi-queue",
  async run() {
    if (!existsSync(mpiexec)) throw new MissingPeerError(`${mpiexec} not found; install it with apt-get install openmpi-bin`);
    const bareStarted = performance.now();
    const words = ["--allow-run-as-root", "--oversubscribe", "-n", String(ranks), "/bin/sleep", String(workSeconds)];
    execFileSync(mpiexec, words, { stdio: "ignore" });
    const work = (performance.now() - bareStarted) * (jobs / atATime);
    const keelson = await startLocalKeelson();
    const client = await connect({ kubeconfig: keelson.kubeconfig });
    try {
      const watch = await client.watch(RhinoJob, { namespace });
      const started = performance.now();
      const names = Array.from({ length: jobs }, (_, index) => `bench-${index}`);
      await Promise.all(names.map((name) => client.create(RhinoJob, { metadata: { name, namespace }, spec })));
      const completed = new Set<string>();
      for await (const { object } of watch) {
        const { metadata, status } = object as RhinoJob;
        if (status?.jobStatus === "Failed") throw new Error(`${metadata.name}: ${status.message ?? ""}`);
        if (status?.jobStatus === "Completed") completed.add(metadata.name ?? "");
        if (completed.size === jobs) break;
      }
      const ours = performance.now() - started;
      watch.close();
      return [
        {
          name: `${jobs} queued RhinoJobs of ${workSeconds} s created -> all Completed`,
          unit: "ms",
          ours,
          peer: { name: `mpiexec of the same programs, ${atATime} at a time without gaps`, value: work },
          note: `${ranks} ranks per job, ${atATime} jobs fit at a time, Open MPI`,
        },
      ];
    } finally {
      await client.close();
      await keelson.stop();
    }
  },
};

/** Each job requests half of the machine, so that exactly two fit. */
const cpu = `${Math.floor((cpus().length * 1000) / (atATime * ranks))}m`;
const spec: RhinoJob["spec"] = {
  image: "local",
  parallelism: ranks,
  ttl: 600,
  appExec: "/bin/sleep",
  appArgs: [String(workSeconds)],
  memoryAllocationMode: "FixedPerCoreMemory",
  memoryAllocationSize: 2,
  mpiImplementation: "OpenMPI",
  workerTemplate: { spec: { containers: [{ resources: { requests: { cpu } } }] } },
};
