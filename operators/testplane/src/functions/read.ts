import type { Resource } from "./function.ts";

/** The value at a path of own property names, or `undefined`. */
export function valueAt(resource: Resource, ...path: readonly string[]): unknown {
  let value: unknown = resource;
  for (const name of path) {
    if (typeof value !== "object" || value === null || Array.isArray(value) || !Object.hasOwn(value, name)) return undefined;
    value = (value as Readonly<Record<string, unknown>>)[name];
  }
  return value;
}

/** The number at a path, or `fallback`. */
export function numberAt(resource: Resource, path: readonly string[], fallback: number): number {
  const value = valueAt(resource, ...path);
  return typeof value === "number" ? value : fallback;
}

/** The string at a path, or `""`. */
export function stringAt(resource: Resource, ...path: readonly string[]): string {
  const value = valueAt(resource, ...path);
  return typeof value === "string" ? value : "";
}

/** The objects in the list at a path. */
export function objectsAt(resource: Resource, ...path: readonly string[]): readonly Readonly<Record<string, unknown>>[] {
  const value = valueAt(resource, ...path);
  if (!Array.isArray(value)) return [];
  return value.filter(
    (each): each is Record<string, unknown> => typeof each === "object" && each !== null && !Array.isArray(each),
  );
}

/** The condition of this type in `status.conditions`. */
export function conditionOf(resource: Resource, type: string): Readonly<Record<string, unknown>> | undefined {
  return objectsAt(resource, "status", "conditions").find((condition) => condition["type"] === type);
}

/** A value as one line of text. */
export function textOf(value: unknown): string {
  if (typeof value === "string") return value;
  return value === undefined ? "" : JSON.stringify(value);
}
