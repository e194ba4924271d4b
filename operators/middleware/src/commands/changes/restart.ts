import type { CommandContext } from "@keelson/operator";
import { annotations } from "../../api/names.ts";
import { findGroup, requestOfGroup } from "./group-request.ts";

/** `keelson app restart`: restarts the Pods of an App one by one and waits until they are in sync. */
export async function requestRestart(context: CommandContext): Promise<number> {
  const pod = typeof context.flags.pod === "string" ? context.flags.pod : undefined;
  return restart(context, pod, "--pod", {});
}

/** `keelson app rebuild`: replaces the data of a replica by a copy of the primary's, and waits until it is in sync. */
export async function requestRebuild(context: CommandContext): Promise<number> {
  return restart(context, context.args[1], "POD", { rebuild: true });
}

async function restart(context: CommandContext, pod: string | undefined, field: string, body: object): Promise<number> {
  const group = await findGroup(context, pod, field);
  if (group === undefined) return 2;
  return requestOfGroup(context, group, {
    annotation: annotations.restartControl,
    body: { ...body, ...(pod === undefined ? {} : { pod }) },
    read: ({ status }) => status?.restartControl,
    describe: () => `${pod ?? group.metadata.name} has restarted and is in sync`,
  });
}
