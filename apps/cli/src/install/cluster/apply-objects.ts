import {
  isConditionTrue,
  isMissingKind,
  isNotFound,
  type KubernetesObject,
  type ResourceType,
  type Stored,
} from "@keelson/api-machinery";
import { CustomResourceDefinition } from "@keelson/api-machinery/kinds";
import type { ApplyConfiguration, Client } from "@keelson/client";
import type { InstalledObject } from "../install-parts.ts";
import { InstallError } from "./install-error.ts";
import { optionalKinds, resourceTypeOf } from "./resource-types.ts";
import { waitUntil } from "./wait-until.ts";

/** What an apply did to an object, or would do. */
export type ApplyResult = "created" | "configured" | "unchanged";

/** Options of {@link applyObjects}. */
export interface ApplyObjectsOptions {
  readonly client: Client;
  readonly objects: readonly InstalledObject[];
  /** Changes nothing and reports what would change. */
  readonly dryRun: boolean;
  readonly onResult: (object: InstalledObject, result: ApplyResult) => void;
  readonly signal: AbortSignal;
}

/** Owner of the fields that an installation writes. */
const fieldManager = "keelson-install";

/**
 * Applies objects in order, with server-side apply. Waits until CustomResourceDefinitions are established before it applies anything
 * after them.
 *
 * **Errors**: {@link InstallError} `ManagedByHelm` if Helm installed one of the objects, before anything is written; `Forbidden` if the
 * user may not write one.
 */
export async function applyObjects({ client, objects, dryRun, onResult, signal }: ApplyObjectsOptions): Promise<void> {
  const present = new Map<InstalledObject, Stored<KubernetesObject>>();
  for (const object of objects) {
    const found = await readObject(client, object, signal);
    if (found === undefined) continue;
    requireNoHelm(found);
    present.set(object, found);
  }
  const crds = new Set<string>();
  for (const object of objects) {
    if (object.kind !== CustomResourceDefinition.kind && crds.size > 0 && !dryRun) {
      await waitUntilEstablished(client, crds, signal);
      crds.clear();
    }
    onResult(object, await applyObject(client, object, present.get(object), dryRun, signal));
    if (object.kind === CustomResourceDefinition.kind) crds.add(object.metadata.name ?? "");
  }
  if (!dryRun) await waitUntilEstablished(client, crds, signal);
}

async function applyObject(
  client: Client,
  object: InstalledObject,
  before: Stored<KubernetesObject> | undefined,
  dryRun: boolean,
  signal: AbortSignal,
): Promise<ApplyResult> {
  const type = resourceTypeOf(object);
  // In a dry run the namespace of a new object may not exist.
  if (before === undefined && dryRun) return "created";
  try {
    const after = await client.apply(type, object as unknown as ApplyConfiguration<KubernetesObject>, {
      fieldManager,
      dryRun,
      signal,
    });
    if (before === undefined) return "created";
    return isSame(before, after) ? "unchanged" : "configured";
  } catch (error) {
    if (!isForbidden(error)) throw error;
    throw new InstallError(
      "Forbidden",
      `${error.message}; an installation needs the permissions of a cluster administrator: use another --context or --kubeconfig`,
      { cause: error },
    );
  }
}

/** Whether an apply changed nothing. A dry run does not change the version, so the content is compared. */
function isSame(before: Stored<KubernetesObject>, after: Stored<KubernetesObject>): boolean {
  const content = (object: Stored<KubernetesObject>): string => {
    const { metadata, ...rest } = object;
    return JSON.stringify({ ...rest, status: undefined, labels: metadata.labels, annotations: metadata.annotations });
  };
  return before.metadata.resourceVersion === after.metadata.resourceVersion || content(before) === content(after);
}

async function readObject(
  client: Client,
  object: InstalledObject,
  signal: AbortSignal,
): Promise<Stored<KubernetesObject> | undefined> {
  const type: ResourceType = resourceTypeOf(object);
  const { name = "", namespace } = object.metadata;
  try {
    return await client.get(type, namespace === undefined ? { name } : { name, namespace }, { signal });
  } catch (error) {
    if (!isNotFound(error)) throw error;
    const setting = optionalKinds.get(object.kind);
    if (isMissingKind(error) && setting !== undefined) {
      throw new InstallError(
        "NotInstalled",
        `the cluster has no kind ${object.kind}: install the Prometheus Operator, or set ${setting}=false`,
        { cause: error },
      );
    }
    return undefined;
  }
}

function requireNoHelm({ kind, metadata }: Stored<KubernetesObject>): void {
  const release = metadata.annotations?.["meta.helm.sh/release-name"];
  if (release === undefined) return;
  const namespace = metadata.annotations?.["meta.helm.sh/release-namespace"] ?? "";
  throw new InstallError(
    "ManagedByHelm",
    `${kind} ${metadata.name} belongs to the Helm release ${release}: use helm upgrade or helm uninstall ${release} -n ${namespace}`,
  );
}

async function waitUntilEstablished(client: Client, names: ReadonlySet<string>, signal: AbortSignal): Promise<void> {
  for (const name of names) {
    await waitUntil(
      client,
      CustomResourceDefinition,
      { fieldSelector: `metadata.name=${name}` },
      (objects) => [...objects.values()].some(({ status }) => isConditionTrue(status?.conditions, "Established")),
      signal,
    );
  }
}

const isForbidden = (error: unknown): error is Error =>
  error instanceof Error && "status" in error && (error.status as { reason?: unknown }).reason === "Forbidden";
