import type { DeepReadonly, KubernetesObject, ResourceType } from "@keelson/api-machinery";

/** An object as a decision reads it: out of a cache, frozen. */
export type Seen<T extends KubernetesObject = KubernetesObject> = DeepReadonly<T>;

/** An event about an object. */
export interface Announcement {
  readonly kind: "event";
  readonly regarding: Seen;
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly note: string;
}

/** A write that a controller wants done. */
export type Write =
  | {
      readonly kind: "create";
      readonly type: ResourceType;
      readonly object: { readonly metadata: KubernetesObject["metadata"] };
      /** Whom SuccessfulCreate and FailedCreate events are about. */
      readonly owner?: Seen;
      /** Where it is there already, that is well too: it is what was wanted, made by a life before this one. */
      readonly mayExist?: boolean;
    }
  /** Replaces the object as it was read: refused when it has moved on. */
  | { readonly kind: "update" | "status"; readonly type: ResourceType; readonly object: Seen }
  /** A merge patch of the object as it was read, refused when it has moved on (or, with `force`, when it is another one). */
  | {
      readonly kind: "patch";
      readonly type: ResourceType;
      readonly object: Seen;
      readonly body: Readonly<Record<string, unknown>>;
      readonly force?: boolean;
      readonly subresource?: string;
    }
  | { readonly kind: "delete"; readonly type: ResourceType; readonly object: Seen; readonly owner?: Seen }
  | Announcement;

/** What a controller wants done now, in this order, and when to look again if nothing changes. */
export interface Decision {
  readonly writes: readonly Write[];
  readonly requeueAfterMs?: number | undefined;
}

/** The sooner of two waits. */
export function sooner(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined ? b : b === undefined ? a : Math.min(a, b);
}

/** An event. */
export function announce(regarding: Seen, type: "Normal" | "Warning", reason: string, note: string): Announcement {
  return { kind: "event", regarding, type, reason, note };
}
