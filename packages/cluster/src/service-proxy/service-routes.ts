import type { DeepReadonly } from "@keelson/api-machinery";
import type { EndpointSliceObject, ServiceObject } from "@keelson/api-machinery/kinds";

/** The backends of one address and port. */
export interface ServiceRoute {
  readonly host: string;
  readonly port: number;
  readonly namespace: string;
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

/** Listeners of the service proxy. Each takes a file descriptor of the process that runs the controllers. */
export interface RouteLimits {
  /** Default: 1,000. */
  readonly maxPerNamespace: number;
  /** Default: 8,000. */
  readonly maxTotal: number;
}

const defaultLimits: RouteLimits = { maxPerNamespace: 1_000, maxTotal: 8_000 };

/** The addresses to listen on. */
export interface ServiceRoutes {
  /** By `host:port`. */
  readonly routes: ReadonlyMap<string, ServiceRoute>;
  /** Services with ports beyond the limits, as `namespace/name`. */
  readonly limited: ReadonlySet<string>;
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
 * The addresses to listen on: each TCP port of each Service with a loopback address, oldest Services first, so that a new one never
 * takes the place of another. Without ready endpoints, terminating ones that still serve are used, as in kube-proxy (KEP-1669).
 */
export function serviceRoutes(
  services: Iterable<DeepReadonly<ServiceObject>>,
  slices: Iterable<DeepReadonly<EndpointSliceObject>>,
  { maxPerNamespace, maxTotal }: RouteLimits = defaultLimits,
): ServiceRoutes {
  const byService = slicesByService(slices);
  const routes = new Map<string, ServiceRoute>();
  const limited = new Set<string>();
  const counts = new Map<string, number>();
  for (const { metadata, spec } of oldestFirst(services)) {
    const host = spec?.clusterIP;
    if (!isLoopback(host) || spec?.type === "ExternalName") continue;
    const { namespace = "" } = metadata;
    const key = `${namespace}/${metadata.name}`;
    const ofService = byService.get(key) ?? [];
    for (const { name = "", port, protocol = "TCP" } of spec?.ports ?? []) {
      if (protocol !== "TCP") continue;
      const count = counts.get(namespace) ?? 0;
      if (count >= maxPerNamespace || routes.size >= maxTotal) {
        limited.add(key);
        break;
      }
      counts.set(namespace, count + 1);
      const backends = backendsOf(ofService, name, protocol);
      routes.set(`${host}:${port}`, { host, port, namespace, name: `${key}:${name || port}`, backends });
    }
  }
  return { routes, limited };
}

function oldestFirst(services: Iterable<DeepReadonly<ServiceObject>>): readonly DeepReadonly<ServiceObject>[] {
  const age = ({ metadata }: DeepReadonly<ServiceObject>): string =>
    `${metadata.creationTimestamp ?? ""} ${metadata.uid ?? metadata.name ?? ""}`;
  return [...services]
    .map((service) => ({ service, age: age(service) }))
    .sort((a, b) => (a.age < b.age ? -1 : a.age > b.age ? 1 : 0))
    .map(({ service }) => service);
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
