import { isNotFound } from "@keelson/api-machinery";
import type { CommandDefinition } from "@keelson/operator";
import { Robot } from "../api/robot.ts";
import { namespaceFlag } from "./flags.ts";

/** `keelson robots cordon ROBOT ...`. */
export const cordonCommand = createCordonCommand("cordon", "give robots no further tasks; their present tasks continue", true);

/** `keelson robots uncordon ROBOT ...`. */
export const uncordonCommand = createCordonCommand("uncordon", "give cordoned robots tasks again", false);

function createCordonCommand(name: string, description: string, unschedulable: boolean): CommandDefinition {
  return {
    name,
    description,
    args: ["ROBOT", "[ROBOTS...]"],
    flags: [namespaceFlag],
    async run({ args, flags, stdout, stderr, signal, client: connect }) {
      const namespace = namespaceFlag.read(flags);
      const client = await connect();
      let exitCode = 0;
      try {
        for (const robot of args) {
          try {
            const body = { spec: { unschedulable: unschedulable ? true : null } };
            await client.patch(Robot, { namespace, name: robot }, { type: "merge", body }, { signal });
            stdout.write(`robot ${robot} ${name}ed\n`);
          } catch (error) {
            if (!isNotFound(error)) throw error;
            stderr.write(
              `robot ${robot} not found in namespace ${namespace}; list robots: keelson robots list -n ${namespace}\n`,
            );
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
