import { changeEach, type CommandDefinition } from "@keelson/operator";
import { RhinoJob } from "../api/rhino-job.ts";
import { namespaceFlag } from "./flags.ts";

/** `keelson mpi delete NAME ...`. */
export const deleteCommand: CommandDefinition = {
  name: "delete",
  description: "delete jobs with their logs and stop running ranks",
  args: ["NAME", "[NAMES...]"],
  flags: [namespaceFlag],
  run: (context) =>
    changeEach(context, {
      ...{ kind: "rhinojob", namespace: namespaceFlag.read(context.flags), done: "deleted" },
      change: (client, key) => client.delete(RhinoJob, key, { propagationPolicy: "Background", signal: context.signal }),
    }),
};
