import { draft, type KubernetesObject } from "@keelson/api-machinery";
import { formatTime } from "@keelson/api-machinery/time";
import { valueAt } from "../registry/object-fields.ts";
import type { ResourceTable } from "../registry/served-resource.ts";
import { type Store, storageKey, type StoredObject } from "../storage/store.ts";
import { withAvailability } from "./api-service.ts";

/** What {@link syncLocalApiServices} takes. */
export interface LocalApiServicesOptions {
  readonly store: Pick<Store, "get" | "list" | "write">;
  readonly resources: Pick<ResourceTable, "list">;
  readonly now: () => number;
  readonly newId: () => string;
}

const kind = { group: "apiregistration.k8s.io", plural: "apiservices" };
/** The prefix of all APIServices in the store. */
export const apiServicesPrefix = storageKey(kind, "", "");
/** `onstart`: created when the server starts; `true`: follows the CustomResourceDefinitions of its group. */
const managedLabel = "kube-aggregator.kubernetes.io/automanaged";

/** Priorities of kube-apiserver's groups. All versions but these have version priority 15. */
const groupPriorities: Readonly<Record<string, number>> = {
  "": 18_000,
  "apiregistration.k8s.io": 18_000,
  apps: 17_800,
  "events.k8s.io": 17_750,
  "authentication.k8s.io": 17_700,
  "authorization.k8s.io": 17_600,
  autoscaling: 17_500,
  batch: 17_400,
  "certificates.k8s.io": 17_300,
  "networking.k8s.io": 17_200,
  policy: 17_100,
  "rbac.authorization.k8s.io": 17_000,
  "storage.k8s.io": 16_800,
  "admissionregistration.k8s.io": 16_700,
  "apiextensions.k8s.io": 16_700,
  "scheduling.k8s.io": 16_600,
  "coordination.k8s.io": 16_500,
  "node.k8s.io": 16_300,
  "discovery.k8s.io": 16_200,
  "resource.k8s.io": 16_200,
  "flowcontrol.apiserver.k8s.io": 16_100,
  "storagemigration.k8s.io": 15_800,
};
const versionPriorities: Readonly<Record<string, number>> = {
  "v1.": 1,
  "v1.apiregistration.k8s.io": 18,
  "v2.autoscaling": 30,
  "v1.resource.k8s.io": 21,
  "v1.flowcontrol.apiserver.k8s.io": 21,
};

/** The priority of a group in discovery; 1,000 for those of CustomResourceDefinitions. */
export function localGroupPriority(group: string): number {
  return groupPriorities[group] ?? 1_000;
}

/**
 * Creates the APIServices of the group versions that this server serves, and deletes those of CustomResourceDefinitions that are no
 * longer served. APIServices that someone else created stay as they are.
 */
export async function syncLocalApiServices(options: LocalApiServicesOptions): Promise<void> {
  const { store, resources } = options;
  const served = new Map<string, KubernetesObject>();
  for (const { group, version, origin } of resources.list()) {
    const name = `${version}.${group}`;
    // The aggregator itself serves its group.
    if (group !== "apiregistration.k8s.io" && !served.has(name))
      served.set(name, localApiService(group, version, origin, options));
  }
  await Promise.all([
    ...[...served].map(async ([name, object]) => {
      const key = storageKey(kind, "", name);
      if (store.get(key) === undefined) await store.write(key, 0, object);
    }),
    ...store
      .list(apiServicesPrefix)
      .items.filter((stored) => isManaged(stored) && !served.has(stored.object.metadata.name ?? ""))
      .map(({ key, revision }) => store.write(key, revision, undefined)),
  ]);
}

/** Whether the APIService follows CustomResourceDefinitions. */
function isManaged({ object }: StoredObject): boolean {
  return object.metadata.labels?.[managedLabel] === "true" && valueAt(object, "spec", "service") === undefined;
}

function localApiService(
  group: string,
  version: string,
  origin: "builtin" | "custom",
  { now, newId }: LocalApiServicesOptions,
): KubernetesObject {
  const name = `${version}.${group}`;
  const creationTimestamp = formatTime(now());
  const isCustom = origin === "custom";
  const object = {
    apiVersion: "apiregistration.k8s.io/v1",
    kind: "APIService",
    metadata: { name, uid: newId(), creationTimestamp, labels: { [managedLabel]: isCustom ? "true" : "onstart" } },
    spec: {
      ...(group === "" ? {} : { group }),
      version,
      groupPriorityMinimum: localGroupPriority(group),
      versionPriority: isCustom
        ? 100
        : (versionPriorities[name] ?? (/alpha/.test(version) ? 9 : /beta/.test(version) ? 12 : 15)),
    },
  };
  const local = { status: "True", reason: "Local", message: "Local APIServices are always available" } as const;
  return { ...object, status: { conditions: withAvailability({}, local, creationTimestamp) } } as KubernetesObject;
}

/** Writes the conditions of an APIService. Returns false if it changed in the meantime. */
export async function writeAvailability(
  store: Pick<Store, "write">,
  stored: StoredObject,
  conditions: readonly unknown[],
): Promise<boolean> {
  const object = { ...draft(stored.object), status: { conditions } } as KubernetesObject;
  return (await store.write(stored.key, stored.revision, object)).ok;
}
