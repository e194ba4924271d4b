import type { DeepReadonly, KubernetesObject, ResourceType } from "@keelson/api-machinery";

/** An object from the cache, frozen. */
export type Cached<T extends KubernetesObject = KubernetesObject> = DeepReadonly<T>;

/** An event to record about an object. */
export interface EventWrite {
  readonly kind: "event";
  readonly regarding: Cached;
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly note: string;
}

/** A write that a controller decided on. */
export type Write =
  | {
      readonly kind: "create";
      readonly type: ResourceType;
      readonly object: { readonly metadata: KubernetesObject["metadata"] };
      /** The object that SuccessfulCreate and FailedCreate events are about. */
      readonly owner?: Cached;
      /** Treats AlreadyExists as success: an earlier reconcile created the object. */
      readonly mayExist?: boolean;
    }
  /** Replaces the object; fails if it has changed since it was read. */
  | { readonly kind: "update" | "status"; readonly type: ResourceType; readonly object: Cached }
  /** Merge-patches the object; fails if it has changed since it was read (with `force`: if it was replaced). */
  | {
      readonly kind: "patch";
      readonly type: ResourceType;
      readonly object: Cached;
      readonly body: Readonly<Record<string, unknown>>;
      readonly force?: boolean;
      readonly subresource?: string;
    }
  | { readonly kind: "delete"; readonly type: ResourceType; readonly object: Cached; readonly owner?: Cached }
  | EventWrite;

/** The writes to perform, in order, and when to reconcile again if nothing changes. */
export interface Decision {
  readonly writes: readonly Write[];
  readonly requeueAfterMs?: number | undefined;
}

/** The smaller of two delays; undefined means none. */
export function earlier(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined ? b : b === undefined ? a : Math.min(a, b);
}

/** Creates an {@link EventWrite}. */
export function eventWrite(regarding: Cached, type: "Normal" | "Warning", reason: string, note: string): EventWrite {
  return { kind: "event", regarding, type, reason, note };
}
