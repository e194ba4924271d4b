import { changeEach, type CommandDefinition } from "@keelson/operator";
import { cancelAnnotation } from "../api/names.ts";
import { findJob } from "./jobs/find-job.ts";
import { namespaceFlag } from "./flags.ts";
import { kindOf } from "./jobs/job-kinds.ts";
import { hasEnded } from "./jobs/watch-job.ts";

/** `keelson mpi suspend NAME ...`. */
export const suspendCommand = patchCommand("suspend", "stop the ranks of jobs until they are resumed", "suspended", {
  spec: { runPolicy: { suspend: true } },
});

/** `keelson mpi resume NAME ...`. */
export const resumeCommand = patchCommand("resume", "queue suspended jobs again, to start with fresh ranks", "resumed", {
  spec: { runPolicy: { suspend: false } },
});

/** `keelson mpi cancel NAME ...`. */
export const cancelCommand = patchCommand("cancel", "cancel queued or running jobs and keep their status", "cancelled", {
  metadata: { annotations: { [cancelAnnotation]: "true" } },
});

/** A command that merges `body` into jobs. */
function patchCommand(name: string, description: string, done: string, body: object): CommandDefinition {
  return {
    name,
    description,
    args: ["NAME", "[NAMES...]"],
    flags: [namespaceFlag],
    run: (context) =>
      changeEach(context, {
        ...{ kind: "job", namespace: namespaceFlag.read(context.flags), done },
        change: async (client, key) => {
          const { signal } = context;
          const job = await findJob(client, key, signal);
          if (job === undefined) return `not found in namespace ${key.namespace}`;
          if (hasEnded(job)) return `has already ended: ${job.status?.jobStatus}; it cannot be ${done}`;
          return kindOf(job).patch(client, { ...key, name: job.metadata.name ?? "" }, body, signal);
        },
      }),
  };
}
