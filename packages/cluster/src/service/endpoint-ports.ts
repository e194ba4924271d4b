import type { DeepReadonly } from "@keelson/api-machinery";
import type { ServiceObject } from "@keelson/api-machinery/kinds";
import type { CachedPod } from "../workload/pod-state.ts";

/** A port of an endpoint: the target of a Service port on one Pod. */
export interface EndpointPort {
  readonly name: string;
  readonly port: number;
  readonly protocol: string;
  readonly appProtocol?: string;
}

type ServicePort = NonNullable<NonNullable<DeepReadonly<ServiceObject>["spec"]>["ports"]>[number];

/** Resolves the ports of a Service on one Pod. A named port that the Pod lacks is omitted. */
export function endpointPorts(service: DeepReadonly<ServiceObject>, pod: CachedPod): readonly EndpointPort[] {
  return (service.spec?.ports ?? []).flatMap((port) => {
    const number = portAt(port, pod);
    if (number === undefined) return [];
    const { name = "", protocol = "TCP", appProtocol } = port;
    return [{ name, port: number, protocol, ...(appProtocol === undefined ? {} : { appProtocol }) }];
  });
}

function portAt({ targetPort, port, protocol = "TCP" }: ServicePort, pod: CachedPod): number | undefined {
  // 0 and "" mean the Service's own port.
  if (!targetPort) return port;
  if (typeof targetPort === "number") return targetPort;
  // Sidecars are init containers and may serve as well.
  const sidecars = (pod.spec.initContainers ?? []).filter(({ restartPolicy }) => restartPolicy === "Always");
  return [...pod.spec.containers, ...sidecars]
    .flatMap(({ ports = [] }) => ports)
    .find((one) => one.name === targetPort && (one.protocol ?? "TCP") === protocol)?.containerPort;
}
