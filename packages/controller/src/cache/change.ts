import type { DeepReadonly, KubernetesObject, ResourceType } from "@keelson/api-machinery";

/** A change of a cached object. `old` is absent on create, and the last known state on delete. */
export interface Change<T extends KubernetesObject> {
  readonly type: "create" | "update" | "delete";
  readonly object: DeepReadonly<T>;
  readonly old?: DeepReadonly<T>;
}

/** Calls `listener` on every change of a cached kind, after the store has it. Returns a function that unsubscribes. */
export type OnChange = <T extends KubernetesObject>(type: ResourceType<T>, listener: (change: Change<T>) => void) => () => void;
