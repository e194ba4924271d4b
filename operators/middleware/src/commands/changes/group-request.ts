import type { DeepReadonly } from "@keelson/api-machinery";
import { awaitObject, type CommandContext, formatResult } from "@keelson/operator";
import { App } from "../../api/app.ts";
import { Group } from "../../api/group.ts";
import { annotations, labels } from "../../api/names.ts";
import { keyOf } from "../app-flags.ts";

/** A request to the controller of a Group by an annotation. */
export interface GroupRequest {
  readonly annotation: string;
  /** Without the id. */
  readonly body: object;
  /** The processed request in the status. */
  readonly read: (group: DeepReadonly<Group>) => { readonly id: string; readonly result: string } | undefined;
  /** Describes a result that was not refused. */
  readonly describe: (result: string) => string;
}

/**
 * Finds the Group of an App that has a Pod; without a Pod the only one with several. Writes the error and resolves to undefined if
 * there is none. `field`: where the user named the Pod.
 */
export async function findGroup(context: CommandContext, pod: string | undefined, field: string) {
  const client = await context.client();
  const { namespace, name } = keyOf(context);
  await client.get(App, { namespace, name });
  const { items } = await client.list(Group, { namespace, labelSelector: `${labels.app}=${name}` });
  const candidates = items.filter(({ status }) =>
    pod === undefined ? (status?.pods?.length ?? 0) > 1 : status?.pods?.some((each) => each.name === pod),
  );
  const [group] = candidates;
  if (group !== undefined && candidates.length === 1) return group;
  const pods = items.flatMap(({ status }) => status?.pods?.map((each) => each.name) ?? []).join(", ");
  context.stderr.write(`${field}: must be one of the Pods of ${name}: ${pods || "none"}\n`);
  return undefined;
}

/** Sends a request and waits for its result. Resolves to the exit code. */
export async function requestOfGroup(
  context: CommandContext,
  group: DeepReadonly<Group>,
  request: GroupRequest,
): Promise<number> {
  const { stdout, stderr, clock, signal } = context;
  if (isPausedHalfway(group)) {
    stderr.write("a change is paused halfway: resume or cancel it first\n");
    return 1;
  }
  const client = await context.client();
  const key = { namespace: group.metadata.namespace, name: group.metadata.name ?? "" };
  const id = String(clock.now());
  const body = { metadata: { annotations: { [request.annotation]: JSON.stringify({ id, ...request.body }) } } };
  await client.patch(Group, key, { type: "merge", body });
  const read = (each: DeepReadonly<Group>): string | undefined => {
    const control = request.read(each);
    return control?.id === id && control.result !== "running" ? control.result : undefined;
  };
  const result = await awaitObject(client, Group, key, read, signal);
  if (result === undefined) {
    stderr.write(`Group ${key.name} was deleted before the controller responded\n`);
    return 1;
  }
  const isRefused = result.startsWith("refused");
  const describe = (): string => `${isRefused ? result : request.describe(result)}\n`;
  stdout.write(formatResult(context, { group: key.name, result }, describe));
  return isRefused ? 1 : 0;
}

/** Whether the Group's operation is paused. It would have to end before a request is processed. */
function isPausedHalfway({ metadata, status }: DeepReadonly<Group>): boolean {
  const { token, phase } = status?.operation ?? {};
  return phase === "Running" && metadata.annotations?.[annotations.pauseRequest] === token;
}
