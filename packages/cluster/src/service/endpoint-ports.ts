import type { DeepReadonly } from "@keelson/api-machinery";
import type { ServiceObject } from "@keelson/api-machinery/kinds";
import type { SeenPod } from "../workload/pod-state.ts";

/** A port of an endpoint: where a Service's port leads to at one Pod. */
export interface EndpointPort {
  readonly name: string;
  readonly port: number;
  readonly protocol: string;
  readonly appProtocol?: string;
}

type ServicePort = NonNullable<NonNullable<DeepReadonly<ServiceObject>["spec"]>["ports"]>[number];

/** The ports of a Service at one Pod. A named port that the Pod does not have is left out. */
export function endpointPorts(service: DeepReadonly<ServiceObject>, pod: SeenPod): readonly EndpointPort[] {
  return (service.spec?.ports ?? []).flatMap((port) => {
    const number = portAt(port, pod);
    if (number === undefined) return [];
    const { name = "", protocol = "TCP", appProtocol } = port;
    return [{ name, port: number, protocol, ...(appProtocol === undefined ? {} : { appProtocol }) }];
  });
}

function portAt({ targetPort, port, protocol = "TCP" }: ServicePort, pod: SeenPod): number | undefined {
  // 0 and "" say: the same as the Service's.
  if (!targetPort) return port;
  if (typeof targetPort === "number") return targetPort;
  // Sidecars are init containers, and serve too.
  const sidecars = (pod.spec.initContainers ?? []).filter(({ restartPolicy }) => restartPolicy === "Always");
  return [...pod.spec.containers, ...sidecars]
    .flatMap(({ ports = [] }) => ports)
    .find((one) => one.name === targetPort && (one.protocol ?? "TCP") === protocol)?.containerPort;
}
