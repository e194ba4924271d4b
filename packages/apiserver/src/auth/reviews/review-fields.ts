import { isJsonObject, type KubernetesObject } from "@keelson/api-machinery";
import type { UserInfo } from "../../registry/served-resource.ts";

/** The `spec` of a review. */
export function specOf(object: KubernetesObject): { readonly [key: string]: unknown } {
  const { spec } = object as { spec?: unknown };
  return isJsonObject(spec) ? spec : {};
}

/** The string field `key`, or `""`. */
export function text(object: { readonly [key: string]: unknown }, key: string): string {
  const value = Object.hasOwn(object, key) ? object[key] : undefined;
  return typeof value === "string" ? value : "";
}

/** The strings in the list `key`. */
export function texts(object: { readonly [key: string]: unknown }, key: string): string[] {
  const value = Object.hasOwn(object, key) ? object[key] : undefined;
  return Array.isArray(value) ? value.filter((element): element is string => typeof element === "string") : [];
}

/** The review with its `status`. */
export function withStatus(object: KubernetesObject, status: Readonly<Record<string, unknown>>): KubernetesObject {
  return { ...object, status } as KubernetesObject;
}

/** A user as authentication/v1 UserInfo. */
export function userObject(user: UserInfo): unknown {
  return {
    username: user.username,
    ...(user.uid ? { uid: user.uid } : {}),
    groups: user.groups,
    ...(user.extra && Object.keys(user.extra).length > 0 ? { extra: user.extra } : {}),
  };
}
