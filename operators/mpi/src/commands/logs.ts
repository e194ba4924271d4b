import type { DeepReadonly } from "@keelson/api-machinery";
import type { CommandDefinition } from "@keelson/operator";
import { RhinoJob } from "../api/rhino-job.ts";
import { namespaceFlag } from "./flags.ts";
import { followLogs } from "./follow-logs.ts";
import { copyLog } from "./pod-log.ts";
import { hasEnded, watchUntilEnd } from "./watch-job.ts";

/** `keelson mpi logs NAME`. */
export const logsCommand: CommandDefinition = {
  name: "logs",
  description: "print the output of all ranks, as mpiexec collects it",
  args: ["NAME"],
  flags: [
    namespaceFlag,
    { name: "follow", short: "f", description: "stream new output until the job ends" },
    { name: "workers", description: "include the output of the workers' daemons" },
    { name: "wait", description: "wait for the end of the job first" },
  ],
  async run({ args, flags, stdout, stderr, signal, client: connect }) {
    const namespace = namespaceFlag.read(flags);
    const name = args[0] ?? "";
    const workers = flags.workers === true;
    const client = await connect();
    try {
      let job: DeepReadonly<RhinoJob> = await client.get(RhinoJob, { namespace, name }, { signal });
      let found = 0;
      if (flags.follow === true && !hasEnded(job)) {
        const followed = await followLogs(client, { job, workers, signal, out: stdout });
        found = followed.logs;
        job = followed.job ?? job;
      } else {
        if (flags.wait === true) job = (await watchUntilEnd(client, { namespace, name, signal, onChange: () => {} })) ?? job;
        const { launcherPodNames = [], workerPodNames = [] } = job.status ?? {};
        for (const pod of [...launcherPodNames, ...(workers ? workerPodNames : [])]) {
          const options = { follow: false, named: workers, out: stdout, signal };
          if (await copyLog(client, { namespace, name: pod }, options)) found += 1;
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
