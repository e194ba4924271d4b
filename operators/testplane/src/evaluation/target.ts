import type { DeepReadonly } from "@keelson/api-machinery";
import type { ResourceRef } from "../api/resource-ref.ts";
import type { Resource } from "../functions/function.ts";

/** The objects that a check is about. */
export interface Target {
  /** The cluster of the test that has the objects. Absent: the cluster that has the test. */
  readonly cluster?: string | undefined;
  readonly apiVersion: string;
  readonly kind: string;
  readonly namespace: string;
  /** Selects one object by name; otherwise by labels or annotations. */
  readonly name?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  /** The workload whose Pods the objects are. */
  readonly workload?: Target;
  /** Requests every version of the object with `name` since the last observation with this value. */
  readonly versionsFor?: string;
}

/** What the watches know about a target. */
export type Observation =
  /** The API server does not serve the kind. */
  | { readonly kind: "unknown-kind" }
  /** Not listed yet; `error` says why the list failed. */
  | { readonly kind: "loading"; readonly error?: string; readonly isForbidden?: boolean }
  | {
      readonly kind: "known";
      /** Matching objects, sorted by name. */
      readonly objects: readonly NonNullable<Resource>[];
      /** Whether the watch has seen this resource version. */
      readonly hasSeen: (resourceVersion: string) => boolean;
      /** Why the watch fails. Until it works again, the objects may have changed. */
      readonly error?: string;
      /** The versions of the object since the last observation, oldest first; undefined for a deletion. See {@link Target.versionsFor}. */
      readonly versions?: readonly Resource[];
      /** How long every change of the objects has been seen, in milliseconds. Default: always. */
      readonly unbrokenMs?: number;
    };

/** The target of a valid reference in the namespace of its test. */
export function targetOf(ref: DeepReadonly<ResourceRef>, namespace: string): Target {
  const { manifest, selector } = ref;
  if (manifest !== undefined) {
    const metadata = manifest["metadata"] as { readonly name: string; readonly namespace?: string };
    return {
      apiVersion: String(manifest["apiVersion"]),
      kind: String(manifest["kind"]),
      namespace: metadata.namespace ?? namespace,
      name: metadata.name,
    };
  }
  if (selector === undefined) throw new TypeError("resource must have a manifest or a selector");
  return {
    apiVersion: selector.apiVersion,
    kind: selector.kind,
    namespace: selector.namespace || namespace,
    ...(selector.name === undefined ? {} : { name: selector.name }),
    ...(selector.labelSelector === undefined ? {} : { labels: selector.labelSelector }),
    ...(selector.annotationSelector === undefined ? {} : { annotations: selector.annotationSelector }),
  };
}

/** Whether an object matches a target. */
export function isTarget(
  target: Target,
  metadata: {
    readonly name?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  },
): boolean {
  if (target.name !== undefined) return metadata.name === target.name;
  return hasAll(metadata.labels, target.labels) && hasAll(metadata.annotations, target.annotations);
}

function hasAll(
  present: Readonly<Record<string, string>> | undefined,
  wanted: Readonly<Record<string, string>> | undefined,
): boolean {
  return Object.entries(wanted ?? {}).every(
    ([key, value]) => present !== undefined && Object.hasOwn(present, key) && present[key] === value,
  );
}

/** Human-readable name of a target, such as `Deployment web`. */
export function describeTarget(target: Target): string {
  const selection = target.name ?? formatLabels(target.labels ?? target.annotations ?? {});
  const place = target.cluster === undefined ? "" : ` in the cluster ${target.cluster}`;
  return `${target.kind} ${selection}${place}`;
}

const formatLabels = (map: Readonly<Record<string, string>>): string =>
  `with ${Object.entries(map)
    .map(([key, value]) => `${key}=${value}`)
    .join(",")}`;
