import type { CommandDefinition } from "@keelson/controller";
import { RhinoJob } from "../api/rhino-job.ts";
import { namespaceFlag, text } from "./flags.ts";
import { podLog } from "./pod-log.ts";
import { hasEnded, watchUntilEnd } from "./watch-job.ts";

/** `keelson mpi logs NAME`. */
export const logsCommand: CommandDefinition = {
  name: "logs",
  description: "print what a job has written: all ranks' output, as mpiexec gathers it",
  args: ["NAME"],
  flags: [
    namespaceFlag,
    { name: "workers", description: "of the workers too: what their daemons wrote" },
    { name: "wait", description: "wait for the job's end first" },
  ],
  async run({ args, flags, stdout, stderr, signal, client: connect }) {
    const namespace = text(flags, "namespace") ?? "default";
    const name = args[0] ?? "";
    const client = await connect();
    try {
      let job = await client.get(RhinoJob, { namespace, name }, { signal });
      if (flags.wait === true && !hasEnded(job)) {
        const ended = await watchUntilEnd(client, { namespace, name, signal, onChange: () => {} });
        if (ended !== undefined) job = ended;
      }
      const { launcherPodNames = [], workerPodNames = [] } = job.status ?? {};
      let found = 0;
      for (const pod of [...launcherPodNames, ...(flags.workers === true ? workerPodNames : [])]) {
        const log = await podLog(client, { namespace, name: pod }, signal);
        if (log === undefined) continue;
        found += 1;
        stdout.write(flags.workers === true ? log.replaceAll(/^(?=.)/gm, `${pod}: `) : log);
      }
      if (found > 0) return 0;
      stderr.write(`${name} has written nothing yet: ${job.status?.jobStatus ?? "Pending"}: ${job.status?.message ?? ""}\n`);
      return 1;
    } finally {
      await client.close();
    }
  },
};
