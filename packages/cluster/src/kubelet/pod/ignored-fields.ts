import { plannedContainers, type PodView } from "./pod-view.ts";

/**
 * What a Pod asks for and its runtime does not give, by the paths of its fields; for people. What only makes a program less able
 * (privileged, added capabilities) is refused to programs apart from the machine; what keeps it apart is nothing that a process has.
 */
export function ignoredFields(pod: PodView, runtime: "process" | "bubblewrap" | "containerd"): readonly string[] {
  const isProcess = runtime === "process";
  const ignored: string[] = [];
  if (!isProcess && pod.spec.shareProcessNamespace === true) ignored.push("spec.shareProcessNamespace");
  for (const { container } of plannedContainers(pod)) {
    const { readOnlyRootFilesystem, privileged, capabilities } = container.securityContext ?? {};
    const ignore = (field: string, is: boolean): void => {
      if (is) ignored.push(`${field} of container ${container.name}`);
    };
    ignore("securityContext.readOnlyRootFilesystem", isProcess && readOnlyRootFilesystem === true);
    ignore("securityContext.capabilities.drop", isProcess && (capabilities?.drop?.length ?? 0) > 0);
    ignore("securityContext.privileged", !isProcess && privileged === true);
    ignore("securityContext.capabilities.add", !isProcess && (capabilities?.add?.length ?? 0) > 0);
  }
  return ignored;
}
