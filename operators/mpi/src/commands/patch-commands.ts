import { changeEach, type CommandDefinition } from "@keelson/operator";
import { cancelAnnotation } from "../api/names.ts";
import { RhinoJob } from "../api/rhino-job.ts";
import { namespaceFlag } from "./flags.ts";

/** `keelson mpi suspend NAME ...`. */
export const suspendCommand = patchCommand("suspend", "stop the ranks of jobs until they are resumed", "suspended", {
  spec: { runPolicy: { suspend: true } },
});

/** `keelson mpi resume NAME ...`. */
export const resumeCommand = patchCommand("resume", "queue suspended jobs again, to start with fresh ranks", "resumed", {
  spec: { runPolicy: { suspend: false } },
});

/** `keelson mpi cancel NAME ...`. */
export const cancelCommand = patchCommand("cancel", "end queued or running jobs and keep their status", "cancelled", {
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
        change: (client, key) => client.patch(RhinoJob, key, { type: "merge", body }, { signal: context.signal }),
      }),
  };
}
