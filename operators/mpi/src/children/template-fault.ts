import { type DeepReadonly, isJsonObject } from "@keelson/api-machinery";
import type { PodTemplateOverlay } from "../api/rhino-job.ts";

const podLists = ["containers", "initContainers", "volumes", "tolerations"] as const;
const podObjects = ["nodeSelector", "affinity"] as const;
const containerLists = ["command", "args", "env", "volumeMounts", "ports"] as const;

/**
 * Why a Pod template cannot be merged with ours or placed by the queue: a field that is not a list or an object. Undefined if it can. The
 * schemas accept any fields of a template, and the API server validates the Job that is created from it. `path`: path of the template, for
 * messages.
 */
export function templateFault(template: DeepReadonly<PodTemplateOverlay> | undefined, path: string): string | undefined {
  const spec: unknown = template?.spec;
  if (spec === undefined) return undefined;
  if (!isJsonObject(spec)) return invalid(`${path}.spec`, spec, "an object");
  const notList = podLists.find((field) => spec[field] !== undefined && !Array.isArray(spec[field]));
  if (notList !== undefined) return invalid(`${path}.spec.${notList}`, spec[notList], "a list");
  const notObject = podObjects.find((field) => spec[field] !== undefined && !isJsonObject(spec[field]));
  if (notObject !== undefined) return invalid(`${path}.spec.${notObject}`, spec[notObject], "an object");
  for (const field of ["containers", "initContainers"] as const) {
    const containers: unknown = spec[field];
    if (!Array.isArray(containers)) continue;
    for (const [index, container] of containers.entries()) {
      const fault = containerFault(container, `${path}.spec.${field}[${index}]`);
      if (fault !== undefined) return fault;
    }
  }
  return undefined;
}

function containerFault(container: unknown, path: string): string | undefined {
  if (!isJsonObject(container)) return invalid(path, container, "an object");
  for (const field of containerLists) {
    const value: unknown = container[field];
    if (value === undefined) continue;
    if (!Array.isArray(value)) return invalid(`${path}.${field}`, value, "a list");
    const index = field === "command" || field === "args" ? -1 : value.findIndex((item) => !isJsonObject(item));
    if (index >= 0) return invalid(`${path}.${field}[${index}]`, value[index], "an object");
  }
  return undefined;
}

function invalid(path: string, value: unknown, kind: string): string {
  return `${path}: Invalid value: ${JSON.stringify(value)}: must be ${kind}`;
}
