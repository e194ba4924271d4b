import { ipcParameters } from "./pod-admission.ts";
import { plannedContainers, type PodView } from "../pod-view.ts";

/**
 * Fields of a Pod that its runtime does not implement, for events. Isolated runtimes never grant more power (privileged, added
 * capabilities); the process runtime cannot take any away.
 */
export function ignoredFields(pod: PodView, runtime: "process" | "bubblewrap" | "containerd"): readonly string[] {
  const isProcess = runtime === "process";
  const ignored: string[] = [];
  if (!isProcess && pod.spec.shareProcessNamespace === true) ignored.push("spec.shareProcessNamespace");
  if (runtime !== "bubblewrap" && ipcParameters(pod) !== undefined) ignored.push("spec.securityContext.sysctls");
  for (const { container } of plannedContainers(pod)) {
    const { readOnlyRootFilesystem, privileged, capabilities } = container.securityContext ?? {};
    const check = (field: string, isIgnored: boolean): void => {
      if (isIgnored) ignored.push(`${field} of container ${container.name}`);
    };
    check("securityContext.readOnlyRootFilesystem", isProcess && readOnlyRootFilesystem === true);
    check("securityContext.capabilities.drop", isProcess && (capabilities?.drop?.length ?? 0) > 0);
    check("securityContext.privileged", !isProcess && privileged === true);
    check("securityContext.capabilities.add", !isProcess && (capabilities?.add?.length ?? 0) > 0);
  }
  return ignored;
}
