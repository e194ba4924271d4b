import { StatusError } from "@keelson/api-machinery";
import type { Handle } from "../endpoints/outcome.ts";
import { systemPriorities } from "../registry/kinds/pod/priority.ts";
import type { UserInfo } from "../registry/served-resource.ts";

const descriptions: Readonly<Record<string, string>> = {
  "system-cluster-critical":
    "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
  "system-node-critical": "Used for system critical pods that must not be moved from their current node.",
};

/** Creates the system's PriorityClasses if they are missing. Rejects with a `StatusError` if one cannot be created. */
export async function createSystemPriorityClasses(handle: Handle, user: UserInfo): Promise<void> {
  const outcomes = await Promise.all(
    Object.entries(systemPriorities).map(([name, value]) =>
      handle({
        method: "POST",
        path: "/apis/scheduling.k8s.io/v1/priorityclasses",
        body: {
          apiVersion: "scheduling.k8s.io/v1",
          kind: "PriorityClass",
          metadata: { name },
          value,
          description: descriptions[name] ?? "",
        },
        user,
        userAgent: "keelson",
      }),
    ),
  );
  for (const outcome of outcomes) {
    if (outcome.kind === "status" && outcome.status.reason !== "AlreadyExists") throw new StatusError(outcome.status);
  }
}
