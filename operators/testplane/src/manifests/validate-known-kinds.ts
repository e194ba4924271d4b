import { isJsonObject } from "@keelson/api-machinery";
import type { Schema } from "@keelson/api-machinery/schema";
import { type ObjectFault, objectFaults, type Path } from "./object-faults.ts";

/** The schema of a kind; undefined if it is not known. The core group is `""`. */
export type KindSchemas = (group: string, version: string, kind: string) => Schema | undefined;

/** Fields of tests that lead to steps. */
const stepLists = ["spec", "steps", "catch", "finally", "cleanup", "finalExpectations"] as const;
/** Fields of tests that lead to manifests. */
const containers: ReadonlySet<string> = new Set([
  ...stepLists,
  ...["apply", "create", "resource", "target", "workload", "resources", "manifest", "manifests"],
]);
/** Fields of a step that lead to manifests without mistakes, although the API server must reject its own. */
const containersOfRejected: ReadonlySet<string> = new Set(stepLists);

/**
 * Finds the mistakes in a test's manifests of known kinds, except those of a step with `expectError`, which are intended. The test itself may be
 * invalid.
 */
export function validateKnownKinds(test: unknown, schemaOf: KindSchemas, path: Path = []): readonly ObjectFault[] {
  if (Array.isArray(test)) return test.flatMap((each: unknown, index) => validateKnownKinds(each, schemaOf, [...path, index]));
  if (!isJsonObject(test)) return [];
  const followed = Object.hasOwn(test, "expectError") ? containersOfRejected : containers;
  return Object.entries(test).flatMap(([name, value]) => {
    if (!followed.has(name)) return [];
    const at = [...path, name];
    if (name === "manifest") return manifestFaults(value, schemaOf, at);
    if (name !== "manifests" || !Array.isArray(value)) return validateKnownKinds(value, schemaOf, at);
    return value.flatMap((each: unknown, index) => manifestFaults(each, schemaOf, [...at, index]));
  });
}

function manifestFaults(manifest: unknown, schemaOf: KindSchemas, path: Path): readonly ObjectFault[] {
  if (!isJsonObject(manifest)) return [];
  const { apiVersion, kind, items } = manifest;
  if (Array.isArray(items))
    return items.flatMap((item: unknown, index) => manifestFaults(item, schemaOf, [...path, "items", index]));
  if (typeof apiVersion !== "string" || typeof kind !== "string") return [];
  const [version = "", group = ""] = apiVersion.split("/").toReversed();
  const schema = schemaOf(group, version, kind);
  // Every kind's labels and annotations are checked with the test.
  const isOwn = ({ path: [metadata, map] }: ObjectFault): boolean =>
    !(metadata === "metadata" && (map === "labels" || map === "annotations"));
  if (schema === undefined) return [];
  return objectFaults(schema, manifest, [])
    .filter(isOwn)
    .map((fault) => ({ ...fault, path: [...path, ...fault.path] }));
}
