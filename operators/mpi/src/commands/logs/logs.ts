import type { CommandDefinition } from "@keelson/operator";
import { countFlag, switchFlag, UsageError } from "@keelson/operator/flags";
import { mainContainerName } from "../../children/job-templates.ts";
import { findJob, jobNotFound } from "../jobs/find-job.ts";
import { namespaceFlag } from "../flags.ts";
import { followLogs } from "./follow-logs.ts";
import { copyLog } from "./pod-log.ts";
import { hasEnded, watchUntilEnd } from "../jobs/watch-job.ts";

const rankFlag = countFlag({
  name: "rank",
  value: "RANK",
  description: "print the lines of this rank only (jobs with labelOutput, such as of run --label)",
});
const labelFlag = switchFlag({ name: "label", description: "prefix every line with its rank (jobs with labelOutput)" });

/** `keelson mpi logs NAME`. */
export const logsCommand: CommandDefinition = {
  name: "logs",
  description: "print the output of all ranks, as mpiexec collects it",
  args: ["NAME"],
  flags: [
    namespaceFlag,
    { name: "follow", short: "f", description: "stream new output until the job ends" },
    { name: "workers", description: "include the output of the workers' daemons" },
    rankFlag,
    labelFlag,
    { name: "wait", description: "wait for the job to finish first" },
  ],
  async run({ args, flags, stdout, stderr, signal, client: connect }) {
    const key = { namespace: namespaceFlag.read(flags), name: args[0] ?? "" };
    const workers = flags.workers === true;
    if (workers && rankFlag.read(flags) !== undefined)
      throw new UsageError("--rank cannot be combined with --workers: the workers' daemons have no ranks");
    const client = await connect();
    try {
      let job = await findJob(client, key, signal);
      if (job === undefined) {
        stderr.write(jobNotFound(key));
        return 1;
      }
      const { namespace, name = "" } = job.metadata;
      const rank = rankFlag.read(flags);
      const keepsLabels = labelFlag.read(flags);
      if ((rank !== undefined || keepsLabels) && job.spec.labelOutput !== true) {
        const how =
          job.session === undefined ? "start the job with --label or spec.labelOutput" : "an MPIJob starts mpirun itself";
        stderr.write(`the output of ${name} has no labels of ranks; ${how}\n`);
        return 1;
      }
      const ranks = { ...(rank === undefined ? {} : { rank }), keepsLabels };
      const selected = job.spec.labelOutput === true && !workers ? { ranks } : {};
      let found = 0;
      if (flags.follow === true && !hasEnded(job)) {
        const followed = await followLogs(client, { job, workers, ...selected, signal, out: stdout });
        found = followed.logs;
        job = followed.job ?? job;
      } else {
        if (flags.wait === true) job = (await watchUntilEnd(client, job, { signal, onChange: () => {} })) ?? job;
        const { launcherPodNames = [], workerPodNames = [] } = job.status ?? {};
        const parts = [["launcher", launcherPodNames] as const, ["worker", workers ? workerPodNames : []] as const];
        for (const [part, pods] of parts) {
          const container = mainContainerName(job, part);
          const options = { container, follow: false, named: workers, ...selected, out: stdout, signal };
          for (const pod of pods) if (await copyLog(client, { namespace, name: pod }, options)) found += 1;
        }
      }
      if (found > 0) return 0;
      stderr.write(`${name} has no output yet: ${job.status?.jobStatus ?? "Pending"}: ${job.status?.message ?? ""}\n`);
      return 1;
    } finally {
      await client.close();
    }
  },
};
