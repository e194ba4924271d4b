import { isNotFound } from "@keelson/api-machinery";
import type { CommandContext, CommandDefinition } from "@keelson/operator";
import { durationFlag } from "@keelson/operator/flags";
import { Robot } from "../api/robot.ts";
import { namespaceFlag } from "./flags.ts";

const deadlineFlag = durationFlag({
  name: "deadline",
  value: "SECONDS",
  description: "how long batch tasks may continue; other tasks move immediately",
  bareUnit: "s",
  minMs: 0,
  maxMs: 30 * 86_400_000,
  default: "1h",
});

/** `keelson robots cordon ROBOT ...`. */
export const cordonCommand: CommandDefinition = {
  name: "cordon",
  description: "give robots no further tasks; their present tasks continue",
  args: ["ROBOT", "[ROBOTS...]"],
  flags: [namespaceFlag],
  run: (context) => patchRobots(context, "cordoned", { unschedulable: true }),
};

/** `keelson robots uncordon ROBOT ...`. */
export const uncordonCommand: CommandDefinition = {
  name: "uncordon",
  description: "give cordoned or drained robots tasks again",
  args: ["ROBOT", "[ROBOTS...]"],
  flags: [namespaceFlag],
  run: (context) => patchRobots(context, "uncordoned", { unschedulable: null, drain: null }),
};

/** `keelson robots drain ROBOT ...`. */
export const drainCommand: CommandDefinition = {
  name: "drain",
  description: "cordon robots and move their tasks to other robots; tasks that are pinned stay",
  args: ["ROBOT", "[ROBOTS...]"],
  flags: [namespaceFlag, deadlineFlag],
  run: (context) => {
    const deadline = new Date(context.clock.now() + deadlineFlag.read(context.flags)).toISOString();
    return patchRobots(context, "draining", { unschedulable: true, drain: { deadline } });
  },
};

/** Merges `spec` into robots. Returns 1 if one of them does not exist. */
async function patchRobots(
  { args, flags, stdout, stderr, signal, client: connect }: CommandContext,
  done: string,
  spec: Readonly<Record<string, unknown>>,
): Promise<number> {
  const namespace = namespaceFlag.read(flags);
  const client = await connect();
  let exitCode = 0;
  try {
    for (const robot of args) {
      try {
        await client.patch(Robot, { namespace, name: robot }, { type: "merge", body: { spec } }, { signal });
        stdout.write(`robot ${robot} ${done}\n`);
      } catch (error) {
        if (!isNotFound(error)) throw error;
        stderr.write(`robot ${robot} not found in namespace ${namespace}; list robots: keelson robots list -n ${namespace}\n`);
        exitCode = 1;
      }
    }
    return exitCode;
  } finally {
    await client.close();
  }
}
