import { type DeepReadonly, ignoreNotFound } from "@keelson/api-machinery";
import { Secret, type SecretObject } from "@keelson/api-machinery/kinds";
import type { ReconcileContext } from "@keelson/controller";
import { certificateProblem, type Certificates } from "@keelson/middleware-agent";
import type { App } from "../../api/app.ts";
import { agentKeys, certificateSecretName } from "../../api/names.ts";
import type { CertificateState } from "./certificate-state.ts";
import { recoverState } from "./recover-certificates.ts";

/**
 * The state of published certificates whose Secret with the authority was lost. Undefined if they cannot be used. `hasSecret`: the App has a
 * Secret of its own for its programs.
 */
export async function recover(
  app: DeepReadonly<App>,
  access: DeepReadonly<SecretObject>,
  hasSecret: boolean,
  { client, clock, signal }: ReconcileContext,
): Promise<CertificateState | undefined> {
  const { namespace, name = "" } = app.metadata;
  const read = decoded(access.data);
  const { authorities, certificate, key } = agentKeys;
  const agent = {
    authorities: read[authorities] ?? "",
    certificate: read[certificate] ?? "",
    key: read[key] ?? "",
  };
  const secret = hasSecret
    ? undefined
    : await ignoreNotFound(client.get(Secret, { namespace, name: certificateSecretName(name) }, { signal }));
  return recoverState({ agent, program: secret && certificatesIn(secret) }, clock.now());
}

/** The certificates in the Secret of a user. Undefined, with an event, if they cannot be used. */
export async function readOwn(
  app: DeepReadonly<App>,
  name: string,
  { client, events, signal }: ReconcileContext,
): Promise<Certificates | undefined> {
  const secret = await ignoreNotFound(client.get(Secret, { namespace: app.metadata.namespace, name }, { signal }));
  const own = certificatesIn(secret);
  const problem = secret === undefined ? "not found" : certificateProblem(own);
  if (problem === undefined) return own;
  events.event(app, { type: "Warning", reason: "CertificateInvalid", note: `Secret ${name}: ${problem}` });
  return undefined;
}

/** The certificates in a Secret of the type `kubernetes.io/tls`. Empty texts for those that are missing. */
export function certificatesIn(secret: DeepReadonly<SecretObject> | undefined): Certificates {
  const { "ca.crt": authorities = "", "tls.crt": certificate = "", "tls.key": key = "" } = decoded(secret?.data);
  return { authorities, certificate, key };
}

/** The texts of a Secret. */
export function decoded(data: Readonly<Record<string, string>> | undefined): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(data ?? {}).map(([key, text]) => [key, Buffer.from(text, "base64").toString("utf8")]),
  );
}
