import type { DeepReadonly } from "@keelson/api-machinery";
import { Secret, type SecretObject } from "@keelson/api-machinery/kinds";
import { ignoreConflict, type ReconcileContext } from "@keelson/controller";
import type { App } from "../../api/app.ts";
import { accessSecretName, userSecretName } from "../../api/names.ts";

/** Field manager of the controller of users and passwords. */
export const fieldManager = "middleware-credential-controller";

/** A Secret with passwords. */
export type ReadSecret = DeepReadonly<SecretObject>;

/** Writes texts into a Secret, unless it has changed since. Null removes a key. Resolves to whether it was written. */
export async function writeSecret(
  { client, signal }: Pick<ReconcileContext, "client" | "signal">,
  { metadata: { name = "", namespace, resourceVersion } }: ReadSecret,
  texts: Readonly<Record<string, string | null>>,
): Promise<boolean> {
  const data = Object.fromEntries(
    Object.entries(texts).map(([key, text]) => [key, text === null ? null : Buffer.from(text).toString("base64")]),
  );
  const body = { metadata: { resourceVersion }, data };
  const written = client.patch(Secret, { namespace, name }, { type: "merge", body }, { fieldManager, signal });
  return (await ignoreConflict(written)) !== undefined;
}

/** A text of a Secret. Undefined if it is missing or empty. */
export function textOf(secret: ReadSecret | undefined, key: string): string | undefined {
  const encoded = secret?.data?.[key];
  return encoded === undefined || encoded === "" ? undefined : Buffer.from(encoded, "base64").toString("utf8");
}

/** Name of the Secret with the password of a user. */
export function secretOf({ metadata: { name = "" }, spec }: DeepReadonly<App>, user: string): string {
  if (user === "default") return accessSecretName(name);
  return spec.users?.find((each) => each.name === user)?.passwordSecret?.name ?? userSecretName(name, user);
}
