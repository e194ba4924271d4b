import { changeEach, type CommandDefinition } from "@keelson/operator";
import { findJob } from "./jobs/find-job.ts";
import { namespaceFlag } from "./flags.ts";
import { kindOf } from "./jobs/job-kinds.ts";

/** `keelson mpi delete NAME ...`. */
export const deleteCommand: CommandDefinition = {
  name: "delete",
  description: "delete jobs with their logs and stop running ranks",
  args: ["NAME", "[NAMES...]"],
  flags: [namespaceFlag],
  run: (context) =>
    changeEach(context, {
      ...{ kind: "job", namespace: namespaceFlag.read(context.flags), done: "deleted" },
      change: async (client, key) => {
        const { signal } = context;
        const job = await findJob(client, key, signal);
        if (job === undefined) return `not found in namespace ${key.namespace}`;
        const { namespace, name = "", uid } = job.metadata;
        const preconditions = uid === undefined ? {} : { preconditions: { uid } };
        const options = { propagationPolicy: "Background", ...preconditions, signal } as const;
        return client.delete(kindOf(job).type, { namespace, name }, options);
      },
    }),
};
