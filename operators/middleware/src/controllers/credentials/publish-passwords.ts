import type { DeepReadonly } from "@keelson/api-machinery";
import { formatTime, parseDuration } from "@keelson/api-machinery/time";
import type { ReconcileContext } from "@keelson/controller";
import type { App } from "../../api/app.ts";
import { passwordKeys } from "../../api/names.ts";
import type { CredentialState } from "./credential-state.ts";
import { type ReadSecret, textOf, writeSecret } from "./password-secret.ts";
import type { Publication } from "./publication.ts";

type PublishContext = Pick<ReconcileContext, "client" | "signal" | "clock" | "events">;

/** Writes all Secrets, so that one that cannot be written does not delay the others. Rejects with the first problem. */
export async function publishAll(
  app: DeepReadonly<App>,
  users: readonly Publication[],
  secrets: ReadonlyMap<string, ReadSecret>,
  context: PublishContext,
): Promise<void> {
  const results = await Promise.allSettled(users.map((each) => publish(app, each, secrets.get(each.user), context)));
  const failed = results.find((result) => result.status === "rejected");
  if (failed !== undefined) throw failed.reason;
}

/** Reports Secrets that must not be written, once. */
export function reportUnpublished(
  app: DeepReadonly<App>,
  { before, after }: { readonly before: CredentialState | undefined; readonly after: CredentialState },
  { events }: Pick<PublishContext, "events">,
): void {
  for (const [user, problem] of Object.entries(after.unpublished ?? {}))
    if (before?.unpublished?.[user] !== problem)
      events.event(app, { type: "Warning", reason: "PasswordNotPublished", note: `user ${user}: ${problem}` });
}

/** Moves the next password of a Secret to its current one, and names its login. */
async function publish(
  app: DeepReadonly<App>,
  { user, login }: Publication,
  secret: ReadSecret | undefined,
  context: PublishContext,
): Promise<void> {
  const next = textOf(secret, passwordKeys.next);
  if (secret === undefined) return;
  const named: Record<string, string | null> = login === undefined ? {} : { [passwordKeys.login]: login };
  const password: Record<string, string | null> =
    next === undefined ? {} : { [passwordKeys.current]: next, [passwordKeys.next]: null };
  if (!(await writeSecret(context, secret, { ...named, ...password })) || next === undefined) return;
  const graceMs = parseDuration(app.spec.passwordRotation?.gracePeriod ?? "1h");
  const until = formatTime(context.clock.now() + graceMs);
  const note = `user ${user}: Secret ${secret.metadata.name ?? ""} has the new password; the previous one is accepted until ${until}`;
  context.events.event(app, { type: "Normal", reason: "PasswordRotated", note });
}
