import type { CommandContext } from "@keelson/operator";
import { annotations } from "../../api/names.ts";
import { findGroup, requestOfGroup } from "./group-request.ts";

/** `keelson app switchover`: hands the primary role of an App's Group to another Pod and waits for the result. */
export async function requestSwitchover(context: CommandContext): Promise<number> {
  const to = typeof context.flags.to === "string" ? context.flags.to : undefined;
  const group = await findGroup(context, to, "--to");
  if (group === undefined) return 2;
  return requestOfGroup(context, group, {
    annotation: annotations.switchoverControl,
    body: to === undefined ? {} : { to },
    read: ({ status }) => status?.switchoverControl,
    describe: (result) => `${result} is the primary`,
  });
}
