import { type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import type { Schema } from "@keelson/api-machinery/schema";
import type { CustomResourceDefinition } from "./crd-spec.ts";

type Crd = DeepReadonly<CustomResourceDefinition>;

/** Whether objects that were pruned by the schemas of `before` have no field that the schemas of `after` would prune. */
export function keepsFields(before: Crd, after: Crd): boolean {
  return after.spec.versions.every(({ name, schema }) => {
    const known = before.spec.versions.find((version) => version.name === name);
    // A version that is served again may have objects from before.
    if (known === undefined) return after.status?.storedVersions?.includes(name) !== true;
    return keeps(known.schema?.openAPIV3Schema ?? {}, schema?.openAPIV3Schema ?? {});
  });
}

type Read = DeepReadonly<Schema>;

/** Whether `after` keeps every field that `before` keeps. False in doubt: then objects are checked when they are read. */
function keeps(before: Read, after: Read): boolean {
  if (before === after || jsonEquals(before, after)) return true;
  const [had, has] = [before["x-kubernetes-preserve-unknown-fields"], after["x-kubernetes-preserve-unknown-fields"]];
  if (had === true && has !== true) return false;
  if (before["x-kubernetes-embedded-resource"] === true && after["x-kubernetes-embedded-resource"] !== true) return false;
  return keepsUnknown(before, after) && keepsProperties(before, after) && keepsItems(before, after);
}

/** Fields that `before` accepts without naming them. */
function keepsUnknown(before: Read, after: Read): boolean {
  const { additionalProperties: old } = before;
  const acceptsUnknown = before["x-kubernetes-preserve-unknown-fields"] === true || old !== undefined;
  if (!acceptsUnknown) return true;
  // A property that is specified now may prune what was unknown before.
  const isNew = (key: string): boolean => !Object.hasOwn(before.properties ?? {}, key);
  if (Object.keys(after.properties ?? {}).some(isNew)) return false;
  const { additionalProperties: next } = after;
  // With `false`, validation rejects the fields, and pruning keeps them.
  if (next === false) return true;
  if (old === undefined || next === undefined) return old === next;
  return old !== false && keeps(schemaOf(before, old), schemaOf(after, next));
}

/** The schema that prunes like `additionalProperties`: `true` prunes all fields of a value unless unknown fields are preserved. */
function schemaOf({ "x-kubernetes-preserve-unknown-fields": preserve }: Read, additional: true | Read): Read {
  if (additional !== true) return additional;
  return preserve === true ? { "x-kubernetes-preserve-unknown-fields": true } : {};
}

function keepsProperties(before: Read, after: Read): boolean {
  const properties = after.properties ?? {};
  return Object.entries(before.properties ?? {}).every(([key, old]) => {
    const next = Object.hasOwn(properties, key) ? properties[key] : undefined;
    if (next !== undefined) return keeps(old, next);
    return after["x-kubernetes-preserve-unknown-fields"] === true && after.additionalProperties === undefined;
  });
}

function keepsItems({ items: old, ...before }: Read, { items: next, ...after }: Read): boolean {
  if (old !== undefined) return next === undefined ? after["x-kubernetes-preserve-unknown-fields"] === true : keeps(old, next);
  return next === undefined || before["x-kubernetes-preserve-unknown-fields"] !== true;
}
