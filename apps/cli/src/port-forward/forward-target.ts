import type { DeepReadonly } from "@keelson/api-machinery";
import type { PodObject, ServiceObject } from "@keelson/api-machinery/kinds";
import { parseLabelSelector } from "@keelson/api-machinery/selectors";
import { endpointPorts } from "@keelson/cluster/port-forward";
import { UsageError } from "../command-line.ts";

type PodView = DeepReadonly<PodObject>;

/** What a user names: a Pod, or a Service whose Pods are meant. */
export interface ForwardTarget {
  readonly kind: "pod" | "service";
  readonly name: string;
}

/** A pair `[LOCAL:]REMOTE`. */
export interface PortPair {
  /** 0: any free one. `undefined`: the remote one. */
  readonly local: number | undefined;
  /** A number, or the name of a port. */
  readonly remote: number | string;
}

const kinds: Readonly<Record<string, ForwardTarget["kind"]>> = {
  po: "pod",
  pod: "pod",
  pods: "pod",
  svc: "service",
  service: "service",
  services: "service",
};

/** Reads `NAME`, `pod/NAME` or `svc/NAME`. Throws a {@link UsageError}. */
export function parseTarget(text: string): ForwardTarget {
  const slash = text.indexOf("/");
  const kind = slash < 0 ? "pod" : kinds[text.slice(0, slash).toLowerCase()];
  const name = text.slice(slash + 1);
  if (kind === undefined || !/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/.test(name))
    throw new UsageError(`${JSON.stringify(text)} names nothing that ports are forwarded to: give POD, pod/NAME or svc/NAME`);
  return { kind, name };
}

/** Reads `REMOTE`, `LOCAL:REMOTE` or `:REMOTE` (any free local port). Throws a {@link UsageError}. */
export function parsePair(text: string): PortPair {
  const [first = "", second] = text.split(":");
  const remote = second ?? first;
  const isPort = (port: string, least: number): boolean =>
    /^\d{1,5}$/.test(port) && Number(port) >= least && Number(port) <= 65535;
  const isName = /^[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?$/.test(remote) && /[a-z]/.test(remote);
  const isLocal = second === undefined || first === "" || isPort(first, 0);
  if (text.split(":").length > 2 || !isLocal || !(isName || isPort(remote, 1)))
    throw new UsageError(
      `${JSON.stringify(text)} is no pair of ports: give REMOTE, LOCAL:REMOTE or :REMOTE, with ports from 1 to 65535 or a port's name`,
    );
  const local = second === undefined ? undefined : Number(first || 0);
  return { local, remote: isName ? remote : Number(remote) };
}

/** The Pod of a Service that is to be connected to: a ready one, else one that runs; the oldest of those. */
export function choosePod(service: DeepReadonly<ServiceObject>, pods: readonly PodView[]): PodView | undefined {
  const selector = Object.entries(service.spec?.selector ?? {}).map(([key, value]) => `${key}=${value}`);
  if (selector.length === 0) return undefined;
  const wanted = parseLabelSelector(selector.join(","));
  const running = pods.filter(
    ({ metadata, status }) =>
      wanted.matches(metadata.labels) && status?.phase === "Running" && metadata.deletionTimestamp === undefined,
  );
  const age = (pod: PodView): string => pod.metadata.creationTimestamp ?? "";
  const oldest = running.toSorted((a, b) => (age(a) < age(b) ? -1 : age(a) > age(b) ? 1 : 0));
  return oldest.find(isReady) ?? oldest[0];
}

function isReady({ status }: PodView): boolean {
  return status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True") === true;
}

/** The number of a port of a Pod. With a Service, `port` is one of the Service. Throws a {@link UsageError}. */
export function podPort(port: number | string, pod: PodView, service?: DeepReadonly<ServiceObject>): number {
  if (service === undefined) {
    if (typeof port === "number") return port;
    const found = pod.spec.containers.flatMap(({ ports = [] }) => ports).find(({ name }) => name === port);
    if (found === undefined) throw new UsageError(`pod ${pod.metadata.name} has no port ${JSON.stringify(port)}`);
    return found.containerPort;
  }
  const own = service.spec?.ports ?? [];
  const named = own.find((each) => (typeof port === "number" ? each.port === port : each.name === port));
  if (named === undefined) {
    const known = own.map((each) => (each.name === undefined ? `${each.port}` : `${each.port} (${each.name})`)).join(", ");
    throw new UsageError(
      `service ${service.metadata.name} has no port ${JSON.stringify(port)}; it has ${known === "" ? "none" : known}`,
    );
  }
  const [found] = endpointPorts({ ...service, spec: { ...service.spec, ports: [named] } } as DeepReadonly<ServiceObject>, pod);
  if (found === undefined)
    throw new UsageError(
      `pod ${pod.metadata.name} has no port ${JSON.stringify(named.targetPort)}, which service ${service.metadata.name} names`,
    );
  return found.port;
}
