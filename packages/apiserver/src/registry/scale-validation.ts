import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";
import type { ScaleSubresource } from "@keelson/api-machinery/schema";
import { invalidCause, type StatusCause } from "@keelson/api-machinery/validation";
import { valueAt } from "./object-fields.ts";

const mostReplicas = 2 ** 31 - 1;

/** `.spec.replicas` in parts: the paths of a scale subresource are plain. */
export function segmentsOf(path: string): string[] {
  return path.split(".").filter((segment) => segment !== "");
}

/**
 * What keeps a custom resource from being scaled: what its replicas and its selector are read from must be that. The fields are named
 * by the paths of the CustomResourceDefinition, with their first dot, as kube-apiserver names them.
 *
 * @param isStatus of an update of the status, which does not touch what is wanted
 */
export function scaleCauses(scale: ScaleSubresource, object: DeepReadonly<KubernetesObject>, isStatus: boolean): StatusCause[] {
  const causes = [scale.statusReplicasPath, ...(isStatus ? [] : [scale.specReplicasPath])].flatMap((path) => {
    const value = valueAt(object, ...segmentsOf(path));
    if (value === undefined) return [];
    if (typeof value !== "number" || !Number.isInteger(value)) return [invalidCause(path, value, "must be a whole number")];
    if (value < 0) return [invalidCause(path, value, "should be a non-negative integer")];
    return value > mostReplicas ? [invalidCause(path, value, `should be less than or equal to ${mostReplicas}`)] : [];
  });
  if (scale.labelSelectorPath === undefined) return causes;
  const selector = valueAt(object, ...segmentsOf(scale.labelSelectorPath));
  if (selector === undefined || typeof selector === "string") return causes;
  return [...causes, invalidCause(scale.labelSelectorPath, selector, "must be a string")];
}
