import type { DeepReadonly } from "@keelson/api-machinery";
import { type CommandContext, formatResult } from "@keelson/operator";
import { App } from "../api/app.ts";
import { Group } from "../api/group.ts";
import { annotations, labels } from "../api/names.ts";
import { keyOf } from "./app-flags.ts";

/** `keelson app switchover`: hands the primary role of an App's Group to another Pod and waits for the result. */
export async function requestSwitchover(context: CommandContext): Promise<number> {
  const { flags, stdout, stderr, clock, signal } = context;
  const client = await context.client();
  const { namespace, name } = keyOf(context);
  await client.get(App, { namespace, name });
  const { items } = await client.list(Group, { namespace, labelSelector: `${labels.app}=${name}` });
  const to = typeof flags.to === "string" ? flags.to : undefined;
  const candidates = items.filter(({ status }) =>
    to === undefined ? (status?.pods?.length ?? 0) > 1 : status?.pods?.some((pod) => pod.name === to),
  );
  const [group] = candidates;
  if (group === undefined || candidates.length > 1) {
    const pods = items.flatMap(({ status }) => status?.pods?.map((pod) => pod.name) ?? []).join(", ");
    stderr.write(`--to: must be one of the Pods of ${name}: ${pods || "none"}\n`);
    return 2;
  }
  const request = { id: String(clock.now()), ...(to === undefined ? {} : { to }) };
  const body = { metadata: { annotations: { [annotations.switchoverControl]: JSON.stringify(request) } } };
  const key = { namespace, name: group.metadata.name };
  const patched = await client.patch(Group, key, { type: "merge", body });
  const watch = await client.watch(Group, {
    namespace,
    fieldSelector: `metadata.name=${group.metadata.name}`,
    resourceVersion: patched.metadata.resourceVersion,
    signal,
  });
  try {
    for await (const event of watch) {
      if (event.type === "DELETED") break;
      const result = event.type === "MODIFIED" ? resultOf(event.object, request.id) : undefined;
      if (result === undefined) continue;
      const isRefused = result.startsWith("refused");
      stdout.write(
        formatResult(context, { group: key.name, result }, () => (isRefused ? `${result}\n` : `${result} is the primary\n`)),
      );
      return isRefused ? 1 : 0;
    }
  } finally {
    watch.close();
  }
  stderr.write(`Group ${key.name} was deleted before the controller responded\n`);
  return 1;
}

/** The result of a request; undefined until the controller has finished it. */
function resultOf({ status }: DeepReadonly<Group>, id: string): string | undefined {
  const { switchoverControl: control } = status ?? {};
  return control?.id === id && control.result !== "running" ? control.result : undefined;
}
