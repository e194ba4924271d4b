import { isMissingKind, isNotFound, type KubernetesObject, type ResourceType } from "@keelson/api-machinery";
import { ConfigMap, Deployment, Lease, Namespace, Secret } from "@keelson/api-machinery/kinds";
import type { Client } from "@keelson/client";
import { configurationKinds } from "@keelson/controller/webhooks";
import { leaseNameOf, type Operator, webhookNameOf, webhookSecretNameOf } from "@keelson/operator";
import { componentLabel, partOfLabel } from "../objects/install-object.ts";
import { hasWebhooks } from "../objects/workload-objects.ts";
import { InstallError } from "./install-error.ts";
import { installedTypes } from "./resource-types.ts";
import { waitUntil } from "./wait-until.ts";

/** An object that a removal deletes. */
export interface RemovedObject {
  readonly type: ResourceType;
  readonly namespace?: string;
  readonly name: string;
}

/** What a removal deletes. */
export interface Removal {
  /** Objects of users: those of the custom kinds. */
  readonly userObjects: readonly RemovedObject[];
  /** Objects of the installation: the programs first, then what they would create again. */
  readonly installed: readonly RemovedObject[];
  /** Webhooks and their certificates, which the operators created for themselves, by name of the operator. */
  readonly webhooks: ReadonlyMap<string, readonly RemovedObject[]>;
  /** Those of `installed` that an installation applied, as opposed to what the operators created for themselves. */
  readonly labelled: readonly RemovedObject[];
}

/** Options of {@link planRemoval}. */
export interface RemovalOptions {
  readonly client: Client;
  readonly namespace: string;
  /** The operators to remove. */
  readonly operators: readonly Operator[];
  /** Whether these are all operators: what they share is removed too. */
  readonly isComplete: boolean;
  readonly signal: AbortSignal;
}

/**
 * Finds everything that belongs to operators: their objects in the cluster, user objects, and what the operators created for
 * themselves.
 *
 * **Errors**: {@link InstallError} `ManagedByHelm`.
 */
export async function planRemoval({ client, namespace, operators, isComplete, signal }: RemovalOptions): Promise<Removal> {
  const resources = operators.flatMap(({ resources }) => resources);
  const userObjects: RemovedObject[] = [];
  for (const type of resources) userObjects.push(...(await listAll(client, type, {}, signal)));
  const crds = new Set(resources.map(({ crd }) => crd.metadata.name));
  const components = new Set(operators.map(({ name }) => name));
  if (components.has("robots")) components.add("mosquitto");
  if (isComplete) components.add("shared");
  const installed: RemovedObject[] = [];
  for (const type of installedTypes) {
    const isCrd = type.kind === "CustomResourceDefinition";
    const where = type.scope === "Namespaced" ? { namespace } : {};
    const selection = isCrd ? {} : { ...where, labelSelector: `${partOfLabel}=keelson` };
    for (const object of await listObjects(client, type, selection, signal)) {
      const { metadata } = object;
      if (!(isCrd ? crds.has(metadata.name ?? "") : components.has(metadata.labels?.[componentLabel] ?? ""))) continue;
      // Another installation's namespace stays.
      if (type.kind === Namespace.kind && metadata.name !== namespace) continue;
      requireNoHelm(object);
      installed.push(removed(type, object));
    }
  }
  const leases: RemovedObject[] = [];
  for (const operator of operators) leases.push(...(await find(client, Lease, leaseNameOf(operator), namespace, signal)));
  const webhooks = new Map<string, readonly RemovedObject[]>();
  for (const operator of operators.filter(hasWebhooks))
    webhooks.set(operator.name, await webhookObjects(client, operator, namespace, signal));
  const plugins = operators.some(({ name }) => name === "middleware") ? await pluginObjects(client, signal) : [];
  const tokens = operators.some(({ name }) => name === "robots")
    ? await find(client, Secret, joinTokenSecret, undefined, signal)
    : [];
  // The operators come first: they would create their own objects again.
  return {
    userObjects,
    installed: [
      ...installed.filter(isWorkload),
      ...[leases, ...webhooks.values(), plugins, tokens].flat(),
      ...installed.filter((object) => !isWorkload(object)),
    ],
    webhooks,
    labelled: installed,
  };
}

async function webhookObjects(
  client: Client,
  operator: Operator,
  namespace: string,
  signal: AbortSignal,
): Promise<readonly RemovedObject[]> {
  const objects: RemovedObject[] = [];
  for (const type of Object.values(configurationKinds))
    objects.push(...(await find(client, type, webhookNameOf(operator), undefined, signal)));
  return [...objects, ...(await find(client, Secret, webhookSecretNameOf(operator), namespace, signal))];
}

/** Whether an object runs a program. */
const isWorkload = ({ type }: RemovedObject): boolean => type.kind === Deployment.kind;

/** Secret with the join token, which the robots operator creates in the robots' namespace. */
const joinTokenSecret = "robot-join-token";

/** Namespace of the middleware's plugins, which its operator creates. */
const pluginNamespace = "middleware-system";

async function pluginObjects(client: Client, signal: AbortSignal): Promise<readonly RemovedObject[]> {
  const plugins = await listAll(
    client,
    ConfigMap,
    { namespace: pluginNamespace, labelSelector: "middleware.io/plugin" },
    signal,
  );
  return [...plugins, ...(await find(client, Namespace, pluginNamespace, undefined, signal))];
}

/** Options of {@link remove}. */
export interface RemoveOptions {
  readonly client: Client;
  readonly removal: Removal;
  /** Called after an object was deleted; its finalizers may still run. */
  readonly onRemoved: (object: RemovedObject) => void;
  readonly signal: AbortSignal;
  /** Ends the wait with an error. */
  readonly deadline: AbortSignal;
}

/**
 * Deletes user objects and waits until they have been finalized, while the operators still run. Then ends the operators, and when their Pods
 * are gone deletes the rest of the installation: a running operator would create its webhooks again.
 *
 * **Errors**: {@link InstallError} `Timeout` with the objects that remain.
 */
export async function remove({ client, removal, onRemoved, signal, deadline }: RemoveOptions): Promise<void> {
  const either = AbortSignal.any([signal, deadline]);
  const removeAll = async (objects: readonly RemovedObject[]): Promise<void> => {
    for (const object of objects) {
      await deleteObject(client, object, signal);
      onRemoved(object);
    }
    for (const type of new Set(objects.map((object) => object.type))) {
      await waitUntilDeleted(
        client,
        type,
        objects.filter((object) => object.type === type),
        either,
      ).catch((error: unknown) => {
        signal.throwIfAborted();
        if (!deadline.aborted) throw error;
        const names = objects.filter((object) => object.type === type).map(displayName);
        throw new InstallError(
          "Timeout",
          `not finalized in time: ${names.join(", ")}; see which finalizer remains: kubectl get ${type.plural} -A -o yaml, then run keelson uninstall again`,
          { cause: error },
        );
      });
    }
  };
  await removeAll(removal.userObjects);
  await removeAll(removal.installed.filter(isWorkload));
  await removeAll(removal.installed.filter((object) => !isWorkload(object)));
}

/** `SandboxPool default/pool`. */
export function displayName({ type, namespace, name }: RemovedObject): string {
  return `${type.kind} ${namespace === undefined ? "" : `${namespace}/`}${name}`;
}

/** Deletes objects, the programs first, and the others when their Pods are gone. Those that do not exist are skipped. */
export async function deleteObjects(client: Client, objects: readonly RemovedObject[], signal: AbortSignal): Promise<void> {
  const workloads = objects.filter(isWorkload);
  for (const object of workloads) await deleteObject(client, object, signal);
  await waitUntilDeleted(client, Deployment, workloads, signal);
  for (const object of objects.filter((each) => !isWorkload(each))) await deleteObject(client, object, signal);
}

async function deleteObject(client: Client, { type, namespace, name }: RemovedObject, signal: AbortSignal): Promise<void> {
  try {
    // Foreground: the Pods of a Deployment are deleted before it.
    const propagationPolicy = type.kind === Deployment.kind ? "Foreground" : "Background";
    await client.delete(type, namespace === undefined ? { name } : { namespace, name }, { propagationPolicy, signal });
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
}

async function waitUntilDeleted(
  client: Client,
  type: ResourceType,
  objects: readonly RemovedObject[],
  signal: AbortSignal,
): Promise<void> {
  if (objects.length === 0) return;
  const keys = objects.map(({ namespace = "", name }) => `${namespace}/${name}`);
  try {
    await waitUntil(client, type, {}, (present) => !keys.some((key) => present.has(key)), signal);
  } catch (error) {
    if (!isMissingKind(error)) throw error;
  }
}

async function listObjects(
  client: Client,
  type: ResourceType,
  selection: { readonly namespace?: string; readonly labelSelector?: string },
  signal: AbortSignal,
): Promise<readonly Pick<KubernetesObject, "metadata">[]> {
  try {
    const { items } = await client.list(type, { ...selection, metadataOnly: true, signal });
    return items as unknown as readonly Pick<KubernetesObject, "metadata">[];
  } catch (error) {
    // A kind that is not served has no objects.
    if (isNotFound(error)) return [];
    throw error;
  }
}

const listAll = async (
  client: Client,
  type: ResourceType,
  selection: { readonly namespace?: string; readonly labelSelector?: string },
  signal: AbortSignal,
): Promise<readonly RemovedObject[]> =>
  (await listObjects(client, type, selection, signal)).map((object) => removed(type, object));

async function find(
  client: Client,
  type: ResourceType,
  name: string,
  namespace: string | undefined,
  signal: AbortSignal,
): Promise<readonly RemovedObject[]> {
  const selection = namespace === undefined ? {} : { namespace };
  const all = await listAll(client, type, selection, signal);
  return all.filter((object) => object.name === name);
}

const removed = (type: ResourceType, { metadata }: Pick<KubernetesObject, "metadata">): RemovedObject => ({
  type,
  name: metadata.name ?? "",
  ...(metadata.namespace === undefined ? {} : { namespace: metadata.namespace }),
});

function requireNoHelm({ metadata }: Pick<KubernetesObject, "metadata">): void {
  const release = metadata.annotations?.["meta.helm.sh/release-name"];
  if (release === undefined) return;
  const namespace = metadata.annotations?.["meta.helm.sh/release-namespace"] ?? "";
  throw new InstallError("ManagedByHelm", `Keelson was installed by Helm: run helm uninstall ${release} -n ${namespace}`);
}
