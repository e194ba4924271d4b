import type { DeepReadonly } from "@keelson/api-machinery";
import type { ResourceRef } from "../api/resource-ref.ts";
import type { Resource } from "../functions/function.ts";

/** Which objects a check is about. */
export interface Target {
  readonly apiVersion: string;
  readonly kind: string;
  readonly namespace: string;
  /** One object by name; else those with these labels, or annotations. */
  readonly name?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}

/** What is known of a target. */
export type Observation =
  /** No such kind is served. */
  | { readonly kind: "unknown-kind" }
  /** It is not known yet; `error` says why it could not be read. */
  | { readonly kind: "loading"; readonly error?: string }
  | {
      readonly kind: "known";
      /** Those that match, sorted by name. */
      readonly objects: readonly NonNullable<Resource>[];
      /** Whether everything up to this resource version is known. */
      readonly hasSeen: (resourceVersion: string) => boolean;
    };

/** The objects of a reference, in the namespace of its test. The reference is valid. */
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
  if (selector === undefined) throw new TypeError("a resource has neither manifest nor selector");
  return {
    apiVersion: selector.apiVersion,
    kind: selector.kind,
    namespace: selector.namespace || namespace,
    ...(selector.name === undefined ? {} : { name: selector.name }),
    ...(selector.labelSelector === undefined ? {} : { labels: selector.labelSelector }),
    ...(selector.annotationSelector === undefined ? {} : { annotations: selector.annotationSelector }),
  };
}

/** Whether an object is one of the target's. */
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

/** For people: `Deployment apps/v1 web`. */
export function nameOf(target: Target): string {
  const which = target.name ?? textOfMap(target.labels ?? target.annotations ?? {});
  return `${target.kind} ${which}`;
}

const textOfMap = (map: Readonly<Record<string, string>>): string =>
  `with ${Object.entries(map)
    .map(([key, value]) => `${key}=${value}`)
    .join(",")}`;
