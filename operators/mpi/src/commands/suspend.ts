import { isNotFound } from "@keelson/api-machinery";
import type { CommandDefinition } from "@keelson/operator";
import { RhinoJob } from "../api/rhino-job.ts";
import { namespaceFlag } from "./flags.ts";

/** `keelson mpi suspend NAME ...`. */
export const suspendCommand = suspendCommandOf("suspend", "stop the ranks of jobs until they are resumed", true);

/** `keelson mpi resume NAME ...`. */
export const resumeCommand = suspendCommandOf("resume", "start suspended jobs again, with fresh ranks", false);

function suspendCommandOf(name: "suspend" | "resume", description: string, suspend: boolean): CommandDefinition {
  return {
    name,
    description,
    args: ["NAME", "[NAMES...]"],
    flags: [namespaceFlag],
    async run({ args, flags, stdout, stderr, signal, client: connect }) {
      const namespace = namespaceFlag.read(flags);
      const client = await connect();
      let exitCode = 0;
      try {
        for (const job of args) {
          try {
            const body = { spec: { runPolicy: { suspend } } };
            await client.patch(RhinoJob, { namespace, name: job }, { type: "merge", body }, { signal });
            stdout.write(`rhinojob ${job} ${name === "suspend" ? "suspended" : "resumed"}\n`);
          } catch (error) {
            if (!isNotFound(error)) throw error;
            stderr.write(`rhinojob ${job} not found in namespace ${namespace}\n`);
            exitCode = 1;
          }
        }
        return exitCode;
      } finally {
        await client.close();
      }
    },
  };
}
