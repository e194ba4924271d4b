import type { DeepReadonly } from "@keelson/api-machinery";
import type { ContainerStatus, PodObject } from "@keelson/api-machinery/kinds";
import { podVariables } from "../launch/pod-environment.ts";

/**
 * The status of the container that takes part in the job, whatever containers the user's template or a webhook has added. The kubelet sorts
 * statuses by name.
 */
export function mainContainerStatus({ spec, status }: DeepReadonly<PodObject>): DeepReadonly<ContainerStatus> | undefined {
  const statuses = status?.containerStatuses ?? [];
  if (statuses.length < 2) return statuses[0];
  const main =
    spec.containers.find(({ env = [] }) => env.some(({ name }) => name === podVariables.token)) ?? spec.containers[0];
  return statuses.find(({ name }) => name === main?.name);
}
