import type { DeepReadonly, ObjectMeta } from "@keelson/api-machinery";
import type { Container, PodSpec } from "@keelson/api-machinery/kinds";
import { formatQuantity, isQuantity } from "@keelson/api-machinery/quantity";
import { nodeLabelWarning } from "../node-labels.ts";

/** Deprecated annotations; a key that ends with `/` is a prefix. */
const deprecatedAnnotations: readonly (readonly [key: string, warning: string])[] = [
  ["container.apparmor.security.beta.kubernetes.io/", 'deprecated since v1.30; use the "appArmorProfile" field instead'],
  ["container.seccomp.security.alpha.kubernetes.io/", 'non-functional in v1.27+; use the "seccompProfile" field instead'],
  ["seccomp.security.alpha.kubernetes.io/pod", 'non-functional in v1.27+; use the "seccompProfile" field instead'],
  ["security.alpha.kubernetes.io/sysctls", 'non-functional in v1.11+; use the "sysctls" field instead'],
  ["security.alpha.kubernetes.io/unsafe-sysctls", 'non-functional in v1.11+; use the "sysctls" field instead'],
];

/** kube-apiserver's warnings about a Pod or Pod template whose spec is at `path`. */
export function podWarnings(metadata: DeepReadonly<ObjectMeta> | undefined, value: unknown, path: string): string[] {
  if (typeof value !== "object" || value === null) return [];
  const spec = value as DeepReadonly<PodSpec>;
  const parent = path.slice(0, -"spec".length);
  const warnings: string[] = [];
  for (const key of Object.keys(spec.nodeSelector ?? {})) {
    const warning = nodeLabelWarning(key);
    if (warning !== undefined) warnings.push(`${path}.nodeSelector[${key}]: ${warning}`);
  }
  for (const key of Object.keys(metadata?.annotations ?? {})) {
    const found = deprecatedAnnotations.find(([name]) => (name.endsWith("/") ? key.startsWith(name) : key === name));
    if (found !== undefined) warnings.push(`${parent}metadata.annotations[${key}]: ${found[1]}`);
  }
  warnings.push(...selectorWarnings(spec, path), ...volumeWarnings(spec, path), ...nameWarnings(spec, path));
  for (const field of ["initContainers", "containers"] as const) {
    for (const [index, container] of (spec[field] ?? []).entries()) {
      warnings.push(...containerWarnings(container, `${path}.${field}[${index}]`));
    }
  }
  return warnings;
}

/** Terms without a selector select nothing, which is hardly intended. */
function selectorWarnings({ affinity, topologySpreadConstraints = [] }: DeepReadonly<PodSpec>, path: string): string[] {
  const warnings: string[] = [];
  const warn = (selector: unknown, at: string): void => {
    if (selector === undefined) warnings.push(`${at}.labelSelector: a null labelSelector results in matching no pod`);
  };
  for (const [index, constraint] of topologySpreadConstraints.entries()) {
    warn(constraint.labelSelector, `${path}.topologySpreadConstraints[${index}]`);
  }
  for (const kind of ["podAffinity", "podAntiAffinity"] as const) {
    const required = affinity?.[kind]?.requiredDuringSchedulingIgnoredDuringExecution ?? [];
    for (const [index, term] of required.entries()) {
      warn(term.labelSelector, `${path}.affinity.${kind}.requiredDuringSchedulingIgnoredDuringExecution[${index}]`);
    }
    const preferred = affinity?.[kind]?.preferredDuringSchedulingIgnoredDuringExecution ?? [];
    for (const [index, { podAffinityTerm }] of preferred.entries()) {
      const at = `${path}.affinity.${kind}.preferredDuringSchedulingIgnoredDuringExecution[${index}].podAffinityTerm`;
      warn(podAffinityTerm?.labelSelector, at);
    }
  }
  return warnings;
}

/** Volume plugins that no longer work, in kube-apiserver's order. */
const deprecatedVolumes: readonly (readonly [source: string, name: string, warning: string])[] = [
  ["photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"],
  ["gitRepo", "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"],
  ["scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"],
  ["flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"],
  ["storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"],
  ["quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"],
  ["glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"],
  ["cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"],
  ["rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"],
];

function volumeWarnings({ volumes = [] }: DeepReadonly<PodSpec>, path: string): string[] {
  const warnings: string[] = [];
  for (const [index, volume] of volumes.entries()) {
    for (const [source, name, warning] of deprecatedVolumes) {
      if (Object.hasOwn(volume, source)) warnings.push(`${path}.volumes[${index}].${name}: ${warning}`);
    }
  }
  for (const { name, projected } of volumes) {
    for (const source of projected?.sources ?? []) {
      const isEmpty = Object.keys(source).length === 0;
      if (isEmpty) warnings.push(`volume ${JSON.stringify(name)} (Projected) has no sources provided`);
    }
  }
  return warnings;
}

function nameWarnings({ hostAliases = [], imagePullSecrets = [] }: DeepReadonly<PodSpec>, path: string): string[] {
  const warnings: string[] = [];
  const addresses = new Set<string>();
  for (const [index, { ip = "" }] of hostAliases.entries()) {
    if (addresses.has(ip)) warnings.push(`${path}.hostAliases[${index}].ip: duplicate ip ${JSON.stringify(ip)}`);
    addresses.add(ip);
  }
  const secrets = new Set<string>();
  const empty: string[] = [];
  for (const [index, { name = "" }] of imagePullSecrets.entries()) {
    const field = `${path}.imagePullSecrets[${index}].name`;
    if (secrets.has(name)) warnings.push(`${field}: duplicate name ${JSON.stringify(name)}`);
    if (name === "") empty.push(`${field}: invalid empty name ""`);
    secrets.add(name);
  }
  warnings.push(...empty);
  return warnings;
}

function containerWarnings({ env = [], ports = [], resources }: DeepReadonly<Container>, path: string): string[] {
  const warnings: string[] = [];
  const names = new Set<string>();
  for (const [index, { name, value = "", valueFrom }] of env.entries()) {
    const reference = `$(${name})`;
    const isExtended = valueFrom === undefined && value !== reference && value.includes(reference);
    const definition = `previous definition of ${JSON.stringify(name)}, which may be dropped when using apply`;
    if (names.has(name) && !isExtended) warnings.push(`${path}.env[${index}]: hides ${definition}`);
    names.add(name);
  }
  const known = new Map<string, number>();
  for (const [index, { name = "", containerPort, protocol = "TCP", hostPort = 0, hostIP = "" }] of ports.entries()) {
    if (hostIP === "" || hostPort !== 0) continue;
    const port = `{Name:${name} HostPort:0 ContainerPort:${containerPort} Protocol:${protocol} HostIP:${hostIP}}`;
    warnings.push(`${path}.ports[${index}]: hostIP set without hostPort: ${port}`);
  }
  for (const [index, { containerPort, protocol = "TCP", hostPort = 0, hostIP = "" }] of ports.entries()) {
    const port = `${containerPort}/${protocol}/${hostPort}/${hostIP}`;
    const first = known.get(port);
    if (first === undefined) known.set(port, index);
    else warnings.push(`${path}.ports[${index}]: duplicate port definition with ${path}.ports[${first}]`);
  }
  for (const kind of ["limits", "requests"] as const) {
    for (const name of ["memory", "ephemeral-storage"]) {
      const quantity = resources?.[kind]?.[name];
      if (!isQuantity(quantity)) continue;
      const canonical = formatQuantity(quantity);
      if (!canonical.endsWith("m")) continue;
      const problem = `fractional byte value ${JSON.stringify(canonical)} is invalid, must be an integer`;
      warnings.push(`${path}.resources.${kind}[${name}]: ${problem}`);
    }
  }
  return warnings;
}
