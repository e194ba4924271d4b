import type { DeepReadonly, KubernetesObject, ObjectMeta } from "@keelson/api-machinery";
import { dns1123LabelFaults } from "@keelson/api-machinery/validation";
import { valueAt } from "../object-fields.ts";
import { podWarnings } from "./pod/warnings.ts";

type Read = DeepReadonly<KubernetesObject>;

/**
 * Warnings about the Pod template at `path` of an object. An update warns only if it changes the spec. With `isPodName`, a create also warns
 * of a name that its Pods cannot have as host name.
 */
export function templateWarnings(path: readonly string[], isPodName: boolean): (object: Read, old?: Read) => readonly string[] {
  return (object, old) => {
    if (old !== undefined && old.metadata.generation === object.metadata.generation) return [];
    const metadata = valueAt(object, ...path, "metadata") as DeepReadonly<ObjectMeta> | undefined;
    const warnings = podWarnings(metadata, valueAt(object, ...path, "spec"), [...path, "spec"].join("."));
    return old === undefined && isPodName ? [...nameWarnings(object, "in Pod names and hostnames"), ...warnings] : warnings;
  };
}

/** Warns of a name that is not a DNS label although it becomes a host name. */
export function nameWarnings({ metadata }: Read, use: string): readonly string[] {
  const faults = dns1123LabelFaults(metadata.name ?? "");
  if (faults.length === 0) return [];
  const advice = `a DNS label is recommended: [${faults.join(" ")}]`;
  return [`metadata.name: this is used ${use}, which can result in surprising behavior; ${advice}`];
}
