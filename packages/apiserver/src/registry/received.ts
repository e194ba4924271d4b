import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";

/**
 * A value of a built-in kind as a client sent it. The schema has checked the types of its fields, but any field may be missing, and a
 * field with a fixed set of values may have others: reporting that is the task of validation.
 */
export type Received<T> = T extends string
  ? string
  : T extends number
    ? number
    : T extends boolean
      ? boolean
      : T extends readonly (infer Item)[]
        ? readonly Received<Item>[]
        : T extends object
          ? { readonly [Field in keyof T]?: Received<T[Field]> }
          : T;

/** A mutable {@link Received}, which defaulting fills in. */
export type Draft<T> = T extends string
  ? string
  : T extends number
    ? number
    : T extends boolean
      ? boolean
      : T extends readonly (infer Item)[]
        ? Draft<Item>[]
        : T extends object
          ? { -readonly [Field in keyof T]?: Draft<T[Field]> }
          : T;

/**
 * An object of a built-in kind as a client sent it. Every `KubernetesObject` is assignable to it, since all fields of the kind are
 * optional: the server passes objects to the functions of their own kind only.
 */
export type ReceivedObject<T extends KubernetesObject> = DeepReadonly<KubernetesObject> &
  Received<Omit<T, keyof KubernetesObject>>;

/** A mutable {@link ReceivedObject}. */
export type DraftObject<T extends KubernetesObject> = KubernetesObject & Draft<Omit<T, keyof KubernetesObject>>;
