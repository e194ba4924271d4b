import { isNotFound } from "@keelson/api-machinery";
import type { CommandDefinition } from "@keelson/operator";
import { RhinoJob } from "../api/rhino-job.ts";
import { namespaceFlag } from "./flags.ts";

/** `keelson mpi delete NAME ...`. */
export const deleteCommand: CommandDefinition = {
  name: "delete",
  description: "delete jobs with their logs and stop running ranks",
  args: ["NAME", "[NAMES...]"],
  flags: [namespaceFlag],
  async run({ args, flags, stdout, stderr, signal, client: connect }) {
    const namespace = namespaceFlag.read(flags);
    const client = await connect();
    let exitCode = 0;
    try {
      for (const name of args) {
        try {
          await client.delete(RhinoJob, { namespace, name }, { propagationPolicy: "Background", signal });
          stdout.write(`rhinojob ${name} deleted\n`);
        } catch (error) {
          if (!isNotFound(error)) throw error;
          stderr.write(`rhinojob ${name} not found in namespace ${namespace}\n`);
          exitCode = 1;
        }
      }
      return exitCode;
    } finally {
      await client.close();
    }
  },
};
