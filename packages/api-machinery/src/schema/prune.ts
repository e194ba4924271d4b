import { isJsonObject, setOwn } from "../objects/json.ts";
import type { Schema } from "./schema.ts";

/** The result of {@link prune}. */
export interface PruneResult<T> {
  /** The value without unknown fields: the same value if there were none, else a copy that shares unchanged parts. */
  readonly value: T;
  /** Paths of the dropped fields in the order of the value, at most 100: `spec.foo`, `spec.items[0].bar`. */
  readonly unknown: readonly string[];
}

const maxDepth = 256;
const maxUnknown = 100;

/**
 * Drops fields that a structural schema does not specify, as kube-apiserver does before it stores a custom resource.
 * `x-kubernetes-preserve-unknown-fields` keeps everything below it except below specified properties; an embedded resource
 * keeps `apiVersion`, `kind` and `metadata`. The argument is not changed.
 */
export function prune<T>(schema: Schema, value: T, path = ""): PruneResult<T> {
  const unknown: string[] = [];
  const pruned = pruneValue(schema, value, path, false, 0, unknown);
  return { value: pruned as T, unknown };
}

/** Returns the messages of `fieldValidation=Strict` and `Warn` for dropped fields: `unknown field "spec.foo"`. */
export function unknownFieldMessages(unknown: readonly string[]): string[] {
  return unknown.map((path) => `unknown field ${JSON.stringify(path)}`);
}

function pruneValue(
  schema: Schema | undefined,
  value: unknown,
  path: string,
  preserved: boolean,
  depth: number,
  unknown: string[],
): unknown {
  if (typeof value !== "object" || value === null || depth > maxDepth) return value;
  const preserve = preserved || schema?.["x-kubernetes-preserve-unknown-fields"] === true;
  if (Array.isArray(value)) {
    if (schema?.items === undefined && preserve) return value;
    const items = schema?.items;
    let copy: unknown[] | undefined;
    for (let index = 0; index < value.length; index++) {
      const before: unknown = value[index];
      if (typeof before !== "object" || before === null) continue;
      const after = pruneValue(items, before, `${path}[${index}]`, false, depth + 1, unknown);
      if (after !== before) (copy ??= value.slice())[index] = after;
    }
    return copy ?? value;
  }
  return pruneObject(schema, value as Record<string, unknown>, path, preserve, depth, unknown);
}

function pruneObject(
  schema: Schema | undefined,
  value: Record<string, unknown>,
  path: string,
  preserve: boolean,
  depth: number,
  unknown: string[],
): Record<string, unknown> {
  const properties = schema?.properties;
  const additional = schema?.additionalProperties;
  const embedded = schema?.["x-kubernetes-embedded-resource"] === true;
  let copy: Record<string, unknown> | undefined;
  const keys = Object.keys(value);
  for (let at = 0; at < keys.length; at++) {
    const key = keys[at] ?? "";
    const before = value[key];
    const own = properties && Object.hasOwn(properties, key) ? properties[key] : undefined;
    let after = before;
    if (own) {
      if (typeof before === "object") after = pruneValue(own, before, childOf(path, key), false, depth + 1, unknown);
    } else if (embedded && (key === "apiVersion" || key === "kind" || key === "metadata")) {
      // Metadata is pruned by its own schema.
    } else if (additional !== undefined) {
      // Objects among values of any kind have no fields that the schema specifies.
      if (additional === true && typeof before === "object" && !preserve) {
        after = pruneValue(undefined, before, childOf(path, key), false, depth + 1, unknown);
      } else if (typeof additional === "object")
        after = pruneValue(additional, before, childOf(path, key), false, depth + 1, unknown);
    } else if (!preserve) {
      if (unknown.length < maxUnknown) unknown.push(childOf(path, key));
      copy ??= copyBefore(value, keys, at);
      continue;
    }
    if (after !== before) copy ??= copyBefore(value, keys, at);
    if (copy) setOwn(copy, key, after);
  }
  return copy ?? value;
}

function copyBefore(value: Record<string, unknown>, keys: readonly string[], end: number): Record<string, unknown> {
  const copy: Record<string, unknown> = {};
  for (let at = 0; at < end; at++) setOwn(copy, keys[at] ?? "", value[keys[at] ?? ""]);
  return copy;
}

function childOf(path: string, key: string): string {
  return path === "" ? key : `${path}.${key}`;
}

/** Reports whether a value has only fields that the schema specifies. */
export function isPruned(schema: Schema, value: unknown): boolean {
  return !isJsonObject(value) && !Array.isArray(value) ? true : prune(schema, value).unknown.length === 0;
}
