import { changeEach, type CommandDefinition } from "@keelson/operator";
import { cancelAnnotation } from "../api/names.ts";
import { RhinoJob } from "../api/rhino-job.ts";
import { namespaceFlag } from "./flags.ts";
import { hasEnded } from "./run/watch-job.ts";

/** `keelson mpi suspend NAME ...`. */
export const suspendCommand = patchCommand("suspend", "stop the ranks of RhinoJobs until they are resumed", "suspended", {
  spec: { runPolicy: { suspend: true } },
});

/** `keelson mpi resume NAME ...`. */
export const resumeCommand = patchCommand("resume", "queue suspended RhinoJobs again, to start with fresh ranks", "resumed", {
  spec: { runPolicy: { suspend: false } },
});

/** `keelson mpi cancel NAME ...`. */
export const cancelCommand = patchCommand("cancel", "end queued or running RhinoJobs and keep their status", "cancelled", {
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
        ...{ kind: "rhinojob", namespace: namespaceFlag.read(context.flags), done },
        change: async (client, key) => {
          const { signal } = context;
          const job = await client.get(RhinoJob, key, { signal });
          if (hasEnded(job)) return `has already ended: ${job.status?.jobStatus}; it cannot be ${done}`;
          return client.patch(RhinoJob, key, { type: "merge", body }, { signal });
        },
      }),
  };
}
