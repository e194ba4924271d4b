import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";
import type { ScaleSubresource } from "@keelson/api-machinery/schema";
import { invalidCause, type StatusCause } from "@keelson/api-machinery/validation";
import { valueAt } from "../object-fields.ts";

const maxReplicas = 2 ** 31 - 1;

/** Splits `.spec.replicas`; the paths of a scale subresource are plain. */
export function segmentsOf(path: string): string[] {
  return path.split(".").filter((segment) => segment !== "");
}

/**
 * Validates that the replicas and selector of a custom resource have the right types for scaling. Fields are named
 * by the paths of the CustomResourceDefinition with their leading dot, as kube-apiserver does.
 *
 * @param isStatus whether only the status is updated, so that the spec is not checked
 */
export function scaleCauses(scale: ScaleSubresource, object: DeepReadonly<KubernetesObject>, isStatus: boolean): StatusCause[] {
  const causes = [scale.statusReplicasPath, ...(isStatus ? [] : [scale.specReplicasPath])].flatMap((path) => {
    const value = valueAt(object, ...segmentsOf(path));
    if (value === undefined) return [];
    if (typeof value !== "number" || !Number.isInteger(value)) return [invalidCause(path, value, "must be a whole number")];
    if (value < 0) return [invalidCause(path, value, "should be a non-negative integer")];
    return value > maxReplicas ? [invalidCause(path, value, `should be less than or equal to ${maxReplicas}`)] : [];
  });
  if (scale.labelSelectorPath === undefined) return causes;
  const selector = valueAt(object, ...segmentsOf(scale.labelSelectorPath));
  if (selector === undefined || typeof selector === "string") return causes;
  return [...causes, invalidCause(scale.labelSelectorPath, selector, "must be a string")];
}
