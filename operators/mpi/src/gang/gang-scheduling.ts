import type { JobObject } from "@keelson/api-machinery/kinds";

type PodTemplate = JobObject["spec"]["template"];

/** A scheduler that places all Pods of a job together, by a PodGroup. */
export type GangScheduling =
  | { readonly kind: "volcano"; readonly schedulerName: "volcano" }
  /** Any scheduler with the coscheduling plugin of kubernetes-sigs/scheduler-plugins. */
  | { readonly kind: "scheduler-plugins"; readonly schedulerName: string };

/** The scheduler that `--gang-scheduling` names; undefined without the flag. The values are those of mpi-operator. */
export function gangSchedulingOf(schedulerName: string | undefined): GangScheduling | undefined {
  if (schedulerName === undefined) return undefined;
  return schedulerName === "volcano" ? { kind: "volcano", schedulerName } : { kind: "scheduler-plugins", schedulerName };
}

/** Adds a Pod template to a PodGroup. Overrides the template's schedulerName: another scheduler would ignore the group. */
export function inPodGroup(template: PodTemplate, podGroup: string, { kind, schedulerName }: GangScheduling): PodTemplate {
  const { metadata, spec } = template;
  const isVolcano = kind === "volcano";
  const usesHostDns = spec.hostNetwork === true && (spec.dnsPolicy ?? "ClusterFirst") === "ClusterFirst";
  return {
    ...template,
    metadata: {
      ...metadata,
      ...(isVolcano ? { annotations: { ...metadata?.annotations, "scheduling.k8s.io/group-name": podGroup } } : {}),
      ...(isVolcano ? {} : { labels: { ...metadata?.labels, "scheduling.x-k8s.io/pod-group": podGroup } }),
    },
    spec: {
      ...spec,
      schedulerName,
      // Workers find the launcher by a name of the cluster's DNS.
      ...(usesHostDns ? { dnsPolicy: "ClusterFirstWithHostNet" as const } : {}),
    },
  };
}
