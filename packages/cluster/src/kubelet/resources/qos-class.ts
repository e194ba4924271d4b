import { compareQuantities } from "@keelson/api-machinery/quantity";
import { type PodView, plannedContainers } from "../pod/pod-view.ts";

/** A Pod's quality of service: `Guaranteed` if all limits equal the requests, `BestEffort` if there are neither. */
export function qosClass(pod: PodView): "Guaranteed" | "Burstable" | "BestEffort" {
  let hasAny = false;
  let isGuaranteed = true;
  for (const { container, role } of plannedContainers(pod)) {
    if (role === "ephemeral") continue;
    for (const resource of ["cpu", "memory"]) {
      const limit = container.resources?.limits?.[resource];
      const request = container.resources?.requests?.[resource] ?? limit;
      if (limit !== undefined || request !== undefined) hasAny = true;
      if (limit === undefined || request === undefined || compareQuantities(limit, request) !== 0) isGuaranteed = false;
    }
  }
  return !hasAny ? "BestEffort" : isGuaranteed ? "Guaranteed" : "Burstable";
}
