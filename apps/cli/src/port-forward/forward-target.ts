import type { DeepReadonly } from "@keelson/api-machinery";
import type { PodObject, ServiceObject } from "@keelson/api-machinery/kinds";
import { parseLabelSelector } from "@keelson/api-machinery/selectors";
import { endpointPorts } from "@keelson/cluster/port-forward";
import { UsageError } from "@keelson/operator/flags";

type PodView = DeepReadonly<PodObject>;

/** The target of a port forward: a Pod, or a Service that selects one. */
export interface ForwardTarget {
  readonly kind: "pod" | "service";
  readonly name: string;
}

/** A port pair, `[LOCAL:]REMOTE`. */
export interface PortPair {
  /** 0 picks a free port; `undefined` uses the remote port number. */
  readonly local: number | undefined;
  /** A port number or name. */
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

/** Parses `NAME`, `pod/NAME` or `svc/NAME`. Throws a {@link UsageError}. */
export function parseTarget(text: string): ForwardTarget {
  const slash = text.indexOf("/");
  const kind = slash < 0 ? "pod" : kinds[text.slice(0, slash).toLowerCase()];
  const name = text.slice(slash + 1);
  if (kind === undefined || !/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/.test(name))
    throw new UsageError(`${JSON.stringify(text)} is not a valid target: must be POD, pod/NAME or svc/NAME`);
  return { kind, name };
}

/** Parses `REMOTE`, `LOCAL:REMOTE` or `:REMOTE` (any free local port). Throws a {@link UsageError}. */
export function parsePortPair(text: string): PortPair {
  const [first = "", second] = text.split(":");
  const remote = second ?? first;
  const isPort = (port: string, min: number): boolean => /^\d{1,5}$/.test(port) && Number(port) >= min && Number(port) <= 65535;
  const isName = /^[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?$/.test(remote) && /[a-z]/.test(remote);
  const isLocal = second === undefined || first === "" || isPort(first, 0);
  if (text.split(":").length > 2 || !isLocal || !(isName || isPort(remote, 1)))
    throw new UsageError(
      `${JSON.stringify(text)} is not a valid port pair: must be REMOTE, LOCAL:REMOTE or :REMOTE, with a port between 1 and 65535 or a port name`,
    );
  const local = second === undefined ? undefined : Number(first || 0);
  return { local, remote: isName ? remote : Number(remote) };
}

/** Chooses the Pod of a Service to connect to: the oldest ready one, otherwise the oldest running one. */
export function choosePod(service: DeepReadonly<ServiceObject>, pods: readonly PodView[]): PodView | undefined {
  const selector = Object.entries(service.spec?.selector ?? {}).map(([key, value]) => `${key}=${value}`);
  if (selector.length === 0) return undefined;
  const labelSelector = parseLabelSelector(selector.join(","));
  const running = pods.filter(
    ({ metadata, status }) =>
      labelSelector.matches(metadata.labels) && status?.phase === "Running" && metadata.deletionTimestamp === undefined,
  );
  const age = (pod: PodView): string => pod.metadata.creationTimestamp ?? "";
  const oldest = running.toSorted((a, b) => (age(a) < age(b) ? -1 : age(a) > age(b) ? 1 : 0));
  return oldest.find(isReady) ?? oldest[0];
}

function isReady({ status }: PodView): boolean {
  return status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True") === true;
}

/** Resolves a port of a Pod, or of a Service that selects it, to a number. Throws a {@link UsageError}. */
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
