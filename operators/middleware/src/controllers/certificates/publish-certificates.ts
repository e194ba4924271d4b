import {
  controllerReference,
  type DeepReadonly,
  ignoreNotFound,
  isAlreadyExists,
  isControlledBy,
  type KubernetesObject,
  type ResourceType,
} from "@keelson/api-machinery";
import { ConfigMap, type ConfigMapObject, Secret, type SecretObject } from "@keelson/api-machinery/kinds";
import { ignoreConflict, metadataOf, type ReconcileContext } from "@keelson/controller";
import { certificateHash, type Certificates, type TlsMode } from "@keelson/middleware-agent";
import type { App } from "../../api/app.ts";
import { agentKeys, authorityKey, authorityName, certificateSecretName, labels, revisionAnnotation } from "../../api/names.ts";

/** Field manager of the objects with certificates. */
export const fieldManager = "middleware-certificate-controller";

/** Certificates as Pods and clients get them. */
export interface PublishedCertificates {
  readonly agent: Certificates;
  /** Undefined for an App with its own Secret. */
  readonly program: Certificates | undefined;
  /** Authorities of the programs. Undefined while those of the App's own Secret cannot be read: the last ones stay published. */
  readonly authorities: string | undefined;
  /** How controllers connect to agents. */
  readonly mode: TlsMode;
}

/**
 * Why the objects of an App's certificates cannot be written: one exists that the App does not control, such as a Secret of a user.
 * Undefined if none does. `hasSecret`: the App has its own Secret for its programs.
 */
export async function foreignObject(
  app: DeepReadonly<App>,
  hasSecret: boolean,
  { client, signal }: { readonly signal?: AbortSignal; readonly client: Pick<ReconcileContext["client"], "get"> },
): Promise<string | undefined> {
  const { name = "", namespace = "" } = app.metadata;
  const problemOf = async (type: typeof Secret | typeof ConfigMap, key: string): Promise<string | undefined> => {
    const found = await ignoreNotFound(
      client.get<SecretObject | ConfigMapObject>(type, { namespace, name: key }, signal ? { signal } : {}),
    );
    if (found === undefined || isControlledBy(found, app)) return undefined;
    return `${type.kind} ${key} exists and is not controlled by this App: rename or delete it`;
  };
  return (
    (await problemOf(Secret, authorityName(name))) ??
    (await problemOf(ConfigMap, authorityName(name))) ??
    (hasSecret ? undefined : await problemOf(Secret, certificateSecretName(name)))
  );
}

/** Writes certificates to the Secrets that Pods mount, and the authorities to the ConfigMap for clients, where they differ. */
export async function publishCertificates(
  app: DeepReadonly<App>,
  access: DeepReadonly<SecretObject>,
  { agent, program, authorities, mode }: PublishedCertificates,
  context: ReconcileContext,
): Promise<void> {
  const { cache } = context;
  const { name = "", namespace = "" } = app.metadata;
  const metadata = { namespace, labels: { [labels.app]: name }, ownerReferences: [controllerReference(app)] };
  const published = cache.get(ConfigMap, { namespace, name: authorityName(name) });
  // First: no certificate is published before its authority.
  if (authorities !== undefined && published?.data?.[authorityKey] !== authorities) {
    const data = { [authorityKey]: authorities };
    const object = { metadata: { ...metadata, name: authorityName(name) }, data };
    await writeControlled(ConfigMap, object, published, app, context);
  }
  await writeTexts(context, access, {
    [agentKeys.authorities]: agent.authorities,
    [agentKeys.certificate]: agent.certificate,
    [agentKeys.key]: agent.key,
    [agentKeys.mode]: mode,
  });
  if (program === undefined) return;
  const annotations = { [revisionAnnotation]: certificateHash([program]) };
  const current = cache.get(metadataOf(Secret), { namespace, name: certificateSecretName(name) });
  if (current?.metadata.annotations?.[revisionAnnotation] === annotations[revisionAnnotation]) return;
  const secret = {
    metadata: { ...metadata, name: certificateSecretName(name), annotations },
    type: "kubernetes.io/tls",
    data: encoded({ "ca.crt": program.authorities, "tls.crt": program.certificate, "tls.key": program.key }),
  };
  await writeControlled(Secret, secret, current, app, context);
}

/**
 * Creates an object, or changes the one that the App controls and that was seen before. Another one that takes its name meanwhile is left
 * unchanged: its event triggers a check for objects of others.
 */
async function writeControlled<T extends ConfigMapObject | SecretObject>(
  type: ResourceType<T>,
  object: { readonly metadata: KubernetesObject["metadata"]; readonly data: Readonly<Record<string, string>> },
  current: DeepReadonly<KubernetesObject> | undefined,
  app: DeepReadonly<App>,
  { client, signal }: Pick<ReconcileContext, "client" | "signal">,
): Promise<void> {
  if (current === undefined) {
    await ignoreAlreadyExists(client.create(type, object as never, { fieldManager, signal }));
    return;
  }
  if (!isControlledBy(current, app)) return;
  const { name = "", namespace, ownerReferences: _, ...metadata } = object.metadata;
  const body = { ...object, metadata: { ...metadata, resourceVersion: current.metadata.resourceVersion } };
  await ignoreConflict(client.patch(type, { namespace, name }, { type: "merge", body }, { fieldManager, signal }));
}

async function ignoreAlreadyExists(write: Promise<unknown>): Promise<void> {
  try {
    await write;
  } catch (error) {
    if (!isAlreadyExists(error)) throw error;
  }
}

const encode = (text: string): string => Buffer.from(text).toString("base64");

function encoded(texts: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(texts).map(([key, text]) => [key, encode(text)]));
}

/** Writes texts into a Secret if they differ, unless it has changed since it was read. Null removes a key. Resolves to whether it has them. */
export async function writeTexts(
  { client, signal }: ReconcileContext,
  { metadata: { name = "", namespace, resourceVersion }, data = {} }: DeepReadonly<SecretObject>,
  texts: Readonly<Record<string, string | null>>,
): Promise<boolean> {
  const wanted = Object.entries(texts).map(([key, text]) => [key, text === null ? null : encode(text)] as const);
  if (wanted.every(([key, text]) => (data[key] ?? null) === text)) return true;
  const body = { metadata: { resourceVersion }, data: Object.fromEntries(wanted) };
  const written = client.patch(Secret, { namespace, name }, { type: "merge", body }, { fieldManager, signal });
  return (await ignoreConflict(written)) !== undefined;
}
