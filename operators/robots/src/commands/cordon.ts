import { changeEach, type CommandContext, type CommandDefinition } from "@keelson/operator";
import { durationFlag } from "@keelson/operator/flags";
import { Robot } from "../api/robot.ts";
import { namespaceFlag } from "./flags.ts";

const deadlineFlag = durationFlag({
  name: "deadline",
  value: "SECONDS",
  description: "how long batch tasks may keep running; other tasks move immediately",
  bareUnit: "s",
  minMs: 0,
  maxMs: 30 * 86_400_000,
  default: "1h",
});

/** `keelson robots cordon ROBOT ...`. */
export const cordonCommand: CommandDefinition = {
  name: "cordon",
  description: "assign no new tasks to robots; their current tasks continue",
  args: ["ROBOT", "[ROBOTS...]"],
  flags: [namespaceFlag],
  run: (context) => patchRobots(context, "cordoned", { unschedulable: true }),
};

/** `keelson robots uncordon ROBOT ...`. */
export const uncordonCommand: CommandDefinition = {
  name: "uncordon",
  description: "assign tasks to cordoned or drained robots again",
  args: ["ROBOT", "[ROBOTS...]"],
  flags: [namespaceFlag],
  run: (context) => patchRobots(context, "uncordoned", { unschedulable: null, drain: null }),
};

/** `keelson robots drain ROBOT ...`. */
export const drainCommand: CommandDefinition = {
  name: "drain",
  description: "cordon robots and move their tasks to other robots; pinned tasks stay",
  args: ["ROBOT", "[ROBOTS...]"],
  flags: [namespaceFlag, deadlineFlag],
  run: (context) => {
    const deadline = new Date(context.clock.now() + deadlineFlag.read(context.flags)).toISOString();
    return patchRobots(context, "draining", { unschedulable: true, drain: { deadline } });
  },
};

/** Merges `spec` into robots. Returns 1 if one of them does not exist. */
function patchRobots(context: CommandContext, done: string, spec: Readonly<Record<string, unknown>>): Promise<number> {
  const namespace = namespaceFlag.read(context.flags);
  return changeEach(context, {
    ...{ kind: "robot", namespace, done, hint: `list robots: keelson robots list -n ${namespace}` },
    change: (client, key) => client.patch(Robot, key, { type: "merge", body: { spec } }, { signal: context.signal }),
  });
}
