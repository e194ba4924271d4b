import type { Resource } from "../functions/function.ts";
import { newestPods, terminalPodError } from "../functions/pod-health.ts";
import { conditionOf, numberAt, stringAt } from "../functions/read.ts";

type Present = NonNullable<Resource>;

/** Kinds whose Pods belong to their state. */
const workloads = new Set(["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController"]);

/**
 * Why an object of a built-in kind cannot make progress without a change, such as a crash loop, an image error or an exceeded deadline.
 * `pods` are those of a workload.
 */
export function terminalState(object: Present, pods: readonly Present[] | undefined): string | undefined {
  const kind = stringAt(object, "kind");
  const group = stringAt(object, "apiVersion").split("/");
  const isBuiltIn = group.length === 1 || ["apps", "batch"].includes(group[0] ?? "") || (group[0] ?? "").endsWith(".k8s.io");
  if (!isBuiltIn) return undefined;
  if (workloads.has(kind)) return workloadState(object, pods ?? []);
  switch (kind) {
    case "Pod":
      return podState(object);
    case "Job":
      return failedCondition(object, "Failed", "True", "the Job failed");
    case "PersistentVolumeClaim":
      return stringAt(object, "status", "phase") === "Lost" ? "the volume of the claim is lost" : undefined;
    case "PersistentVolume":
      return stringAt(object, "status", "phase") === "Failed"
        ? `the volume failed: ${stringAt(object, "status", "message")}`
        : undefined;
    case "CustomResourceDefinition":
      return failedCondition(object, "NamesAccepted", "False", "the names are not accepted");
    case "CertificateSigningRequest":
      return (
        failedCondition(object, "Denied", "True", "the request was denied") ??
        failedCondition(object, "Failed", "True", "the request failed")
      );
    default:
      return undefined;
  }
}

function podState(pod: Present): string | undefined {
  const phase = stringAt(pod, "status", "phase");
  if (phase === "Failed")
    return `the Pod failed: ${stringAt(pod, "status", "reason") || stringAt(pod, "status", "message") || phase}`;
  return terminalPodError(pod);
}

function workloadState(workload: Present, pods: readonly Present[]): string | undefined {
  const progressing = conditionOf(workload, "Progressing");
  if (progressing?.["status"] === "False" && progressing["reason"] === "ProgressDeadlineExceeded")
    return `the rollout failed: ${stringAt(progressing, "message") || "ProgressDeadlineExceeded"}`;
  // Right after a change the newest Pods may still be those of the previous revision.
  if (numberAt(workload, ["status", "updatedReplicas"], 1) === 0) return undefined;
  return newestPods(pods)
    .map(terminalPodError)
    .find((error) => error !== undefined);
}

function failedCondition(object: Present, type: string, status: string, text: string): string | undefined {
  const condition = conditionOf(object, type);
  if (condition?.["status"] !== status) return undefined;
  const why = stringAt(condition, "message") || stringAt(condition, "reason");
  return why === "" ? text : `${text}: ${why}`;
}
