import type { DeepReadonly } from "@keelson/api-machinery";
import type { EndpointSliceObject, ServiceObject } from "@keelson/api-machinery/kinds";

/** The backends of one address and port. */
export interface ServiceRoute {
  readonly host: string;
  readonly port: number;
  /** `namespace/name:port`, for logs. */
  readonly name: string;
  /** Ready endpoints. Connections are reset if there are none. */
  readonly backends: readonly Backend[];
}

/** An endpoint of a Service. */
export interface Backend {
  readonly host: string;
  readonly port: number;
}

const serviceNameLabel = "kubernetes.io/service-name";

/** The Service of a slice, as `namespace/name`. */
function serviceOf(slice: DeepReadonly<EndpointSliceObject>): string {
  return `${slice.metadata.namespace}/${slice.metadata.labels?.[serviceNameLabel] ?? ""}`;
}

/** Groups slices by their Service. */
export function slicesByService(
  slices: Iterable<DeepReadonly<EndpointSliceObject>>,
): ReadonlyMap<string, readonly DeepReadonly<EndpointSliceObject>[]> {
  const byService = new Map<string, DeepReadonly<EndpointSliceObject>[]>();
  for (const slice of slices) {
    const key = serviceOf(slice);
    const known = byService.get(key);
    if (known === undefined) byService.set(key, [slice]);
    else known.push(slice);
  }
  return byService;
}

/** Whether an address is in this machine's loopback network, so that a Service may listen on it. */
function isLoopback(address: string | undefined): address is string {
  return address !== undefined && /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(address) && address !== "127.0.0.1";
}

/**
 * The addresses to listen on: each TCP port of each Service with a loopback address. Without ready endpoints, terminating ones that
 * still serve are used, as in kube-proxy (KEP-1669).
 */
export function serviceRoutes(
  services: Iterable<DeepReadonly<ServiceObject>>,
  slices: Iterable<DeepReadonly<EndpointSliceObject>>,
): ReadonlyMap<string, ServiceRoute> {
  const byService = slicesByService(slices);
  const routes = new Map<string, ServiceRoute>();
  for (const { metadata, spec } of services) {
    const host = spec?.clusterIP;
    if (!isLoopback(host) || spec?.type === "ExternalName") continue;
    const key = `${metadata.namespace}/${metadata.name}`;
    for (const { name = "", port, protocol = "TCP" } of spec?.ports ?? []) {
      if (protocol !== "TCP") continue;
      routes.set(`${host}:${port}`, {
        host,
        port,
        name: `${key}:${name || port}`,
        backends: backendsOf(byService.get(key) ?? [], name, protocol),
      });
    }
  }
  return routes;
}

/**
 * The endpoints of a Service's port: the ready ones, else terminating ones that still serve.
 *
 * @param protocol as in a Service: `TCP`
 */
export function backendsOf(
  slices: readonly DeepReadonly<EndpointSliceObject>[],
  portName: string,
  protocol: string,
): readonly Backend[] {
  const ready: Backend[] = [];
  const serving: Backend[] = [];
  for (const slice of slices) {
    const port = slice.ports?.find((each) => (each.name ?? "") === portName && (each.protocol ?? "TCP") === protocol)?.port;
    if (port === undefined || slice.addressType !== "IPv4") continue;
    for (const { addresses, conditions } of slice.endpoints ?? []) {
      const [host] = addresses;
      if (host === undefined) continue;
      if (conditions?.ready !== false) ready.push({ host, port });
      else if (conditions.serving !== false && conditions.terminating === true) serving.push({ host, port });
    }
  }
  return ready.length > 0 ? ready : serving;
}
