import { changeEach, type CommandDefinition } from "@keelson/operator";
import { Job } from "../api/job.ts";
import { namespaceFlag } from "./flags.ts";

/** `keelson robots stop JOB ...`. */
export const stopCommand: CommandDefinition = {
  name: "stop",
  description: "delete Jobs and stop their tasks; an offline robot stops its tasks when it reconnects",
  args: ["JOB", "[JOBS...]"],
  flags: [namespaceFlag],
  run: (context) => {
    const namespace = namespaceFlag.read(context.flags);
    return changeEach(context, {
      ...{ kind: "job", namespace, done: "is being stopped", hint: `list Jobs: kubectl get rjob -n ${namespace}` },
      change: (client, key) => client.delete(Job, key, { signal: context.signal }),
    });
  },
};
