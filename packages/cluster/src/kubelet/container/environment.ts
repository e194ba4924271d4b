import { type DeepReadonly, setOwn } from "@keelson/api-machinery";
import type { ServiceObject } from "@keelson/api-machinery/kinds";
import { quantityToMillis } from "@keelson/api-machinery/quantity";
import type { ContainerView, PodView } from "../pod/pod-view.ts";
import { expand, ExpansionLimit } from "./expand.ts";
import { configError } from "./container-error.ts";

/** Sources of environment values. Functions return `undefined` for a missing object. */
export interface EnvironmentSources {
  configMap(name: string): Promise<Readonly<Record<string, string>> | undefined>;
  secret(name: string): Promise<Readonly<Record<string, string>> | undefined>;
  readonly services: readonly DeepReadonly<ServiceObject>[];
  readonly podIP: string;
  readonly hostIP: string;
  readonly nodeName: string;
  /** The capacity that a container without limits may use. */
  readonly nodeLimits: { readonly cpu: string; readonly memory: string };
  /** Variables of every container, overridden by its own. */
  readonly base: Readonly<Record<string, string>>;
}

/**
 * Resolves the environment of a container: base variables, the namespace's Services, `envFrom`, then `env`; later ones win. `$(NAME)`
 * in a value refers to an earlier variable; `$$` is a dollar sign; unknown references are kept.
 *
 * @throws ContainerError that names the missing object or key, or the variable that is too long.
 */
export async function resolveEnvironment(
  pod: PodView,
  container: ContainerView,
  sources: EnvironmentSources,
): Promise<Record<string, string>> {
  const env: Record<string, string> = {};
  const limit = new ExpansionLimit();
  const set = (name: string, value: string): void => setOwn(env, name, value);
  const put = (name: string, value: string): void => {
    limit.add(`env ${name}`, name.length + value.length);
    set(name, value);
  };
  for (const [name, value] of Object.entries(sources.base)) put(name, value);
  if (pod.spec.enableServiceLinks !== false) {
    for (const service of sources.services) for (const [name, value] of serviceVariables(service)) put(name, value);
  }
  for (const { prefix = "", configMapRef, secretRef } of container.envFrom ?? []) {
    const [kind, ref] = configMapRef === undefined ? (["secret", secretRef] as const) : (["configmap", configMapRef] as const);
    const name = ref?.name ?? "";
    const data = await (kind === "secret" ? sources.secret(name) : sources.configMap(name));
    if (data === undefined) {
      if (ref?.optional === true) continue;
      throw configError(`${kind} ${JSON.stringify(name)} not found`);
    }
    for (const [key, value] of Object.entries(data)) if (!key.includes("=")) put(`${prefix}${key}`, value);
  }
  for (const variable of container.env ?? []) {
    const { name } = variable;
    if (variable.valueFrom === undefined) {
      // The expansion has counted the value.
      set(name, expand(variable.value ?? "", env, `env ${name}`, limit));
      continue;
    }
    const value = await valueFrom(pod, container, variable.valueFrom, sources);
    if (value !== undefined) put(name, value);
  }
  return env;
}

type ValueFrom = NonNullable<NonNullable<ContainerView["env"]>[number]["valueFrom"]>;

async function valueFrom(
  pod: PodView,
  container: ContainerView,
  from: ValueFrom,
  sources: EnvironmentSources,
): Promise<string | undefined> {
  if (from.fieldRef !== undefined) return podField(pod, from.fieldRef.fieldPath, sources);
  if (from.resourceFieldRef !== undefined) {
    const { containerName, resource, divisor } = from.resourceFieldRef;
    const target =
      containerName === undefined ? container : (pod.spec.containers.find(({ name }) => name === containerName) ?? container);
    return resourceField(target, resource, divisor, sources.nodeLimits);
  }
  const [kind, ref] =
    from.configMapKeyRef === undefined
      ? (["secret", from.secretKeyRef] as const)
      : (["configmap", from.configMapKeyRef] as const);
  if (ref === undefined) return "";
  const name = ref.name ?? "";
  const data = await (kind === "secret" ? sources.secret(name) : sources.configMap(name));
  if (data !== undefined && Object.hasOwn(data, ref.key)) return data[ref.key];
  if (ref.optional === true) return undefined;
  if (data === undefined) throw configError(`${kind} ${JSON.stringify(name)} not found`);
  const where = `${pod.metadata.namespace}/${name}`;
  const what = kind === "secret" ? "Secret" : "ConfigMap";
  throw configError(`couldn't find key ${ref.key} in ${what} ${where}`);
}

/** Resolves a fieldRef. */
export function podField(pod: PodView, path: string, at: Pick<EnvironmentSources, "podIP" | "hostIP" | "nodeName">): string {
  const { metadata, spec } = pod;
  const subscript = /^metadata\.(labels|annotations)\['(.*)'\]$/.exec(path);
  if (subscript !== null) {
    const map = (subscript[1] === "labels" ? metadata.labels : metadata.annotations) ?? {};
    const key = subscript[2] ?? "";
    return Object.hasOwn(map, key) ? (map[key] ?? "") : "";
  }
  switch (path) {
    case "metadata.name":
      return metadata.name ?? "";
    case "metadata.namespace":
      return metadata.namespace ?? "";
    case "metadata.uid":
      return metadata.uid ?? "";
    case "metadata.labels":
      return mapLines(metadata.labels);
    case "metadata.annotations":
      return mapLines(metadata.annotations);
    case "spec.nodeName":
      return spec.nodeName ?? at.nodeName;
    case "spec.serviceAccountName":
      return spec.serviceAccountName ?? "default";
    case "status.podIP":
    case "status.podIPs":
      return at.podIP;
    case "status.hostIP":
    case "status.hostIPs":
      return at.hostIP;
    default:
      throw configError(`unsupported fieldPath ${JSON.stringify(path)}`);
  }
}

/** Formats a map for the downward API: `key="value"` lines, sorted. */
function mapLines(map: Readonly<Record<string, string>> | undefined): string {
  return Object.entries(map ?? {})
    .sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))
    .map(([key, value]) => `${key}=${JSON.stringify(value)}`)
    .join("\n");
}

/** Resolves a resourceFieldRef, divided and rounded up. A missing limit defaults to the node's capacity. */
export function resourceField(
  container: ContainerView,
  resource: string,
  divisor: string | undefined,
  nodeLimits: EnvironmentSources["nodeLimits"],
): string {
  const [what = "", name = ""] = resource.split(/\.(.*)/s);
  const { limits = {}, requests = {} } = container.resources ?? {};
  const own = what === "limits" ? limits[name] : (requests[name] ?? limits[name]);
  const fallback = what !== "limits" ? "0" : name === "cpu" ? nodeLimits.cpu : name === "memory" ? nodeLimits.memory : "0";
  const unit = divisor === undefined || divisor === "0" ? "1" : divisor;
  return String(Math.ceil(quantityToMillis(own ?? fallback) / quantityToMillis(unit)));
}

/** The variables of one Service (`NAME_SERVICE_HOST` and so on), as Kubernetes sets them. */
function serviceVariables(service: DeepReadonly<ServiceObject>): [string, string][] {
  const ip = service.spec?.clusterIP;
  const [first] = service.spec?.ports ?? [];
  if (ip === undefined || ip === "" || ip === "None" || first === undefined) return [];
  const prefix = (service.metadata.name ?? "").toUpperCase().replaceAll("-", "_");
  const variables: [string, string][] = [
    [`${prefix}_SERVICE_HOST`, ip],
    [`${prefix}_SERVICE_PORT`, String(first.port)],
  ];
  for (const { name, port } of service.spec?.ports ?? []) {
    if (name) variables.push([`${prefix}_SERVICE_PORT_${name.toUpperCase().replaceAll("-", "_")}`, String(port)]);
  }
  variables.push([`${prefix}_PORT`, `${(first.protocol ?? "TCP").toLowerCase()}://${ip}:${first.port}`]);
  for (const { port, protocol = "TCP" } of service.spec?.ports ?? []) {
    const base = `${prefix}_PORT_${port}_${protocol}`;
    variables.push(
      [base, `${protocol.toLowerCase()}://${ip}:${port}`],
      [`${base}_PROTO`, protocol.toLowerCase()],
      [`${base}_PORT`, String(port)],
      [`${base}_ADDR`, ip],
    );
  }
  return variables;
}
