import type { DeepReadonly, ObjectMeta } from "@keelson/api-machinery";
import type { Container, PodSpec } from "@keelson/api-machinery/kinds";
import { formatQuantity, isQuantity } from "@keelson/api-machinery/quantity";

/** Deprecated node labels: the version and the replacement. */
const deprecatedLabels: Readonly<Record<string, readonly [version: string, replacement: string]>> = {
  "beta.kubernetes.io/arch": ["v1.14", "kubernetes.io/arch"],
  "beta.kubernetes.io/instance-type": ["v1.17", "node.kubernetes.io/instance-type"],
  "beta.kubernetes.io/os": ["v1.14", "kubernetes.io/os"],
  "failure-domain.beta.kubernetes.io/region": ["v1.17", "topology.kubernetes.io/region"],
  "failure-domain.beta.kubernetes.io/zone": ["v1.17", "topology.kubernetes.io/zone"],
};

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
    const [version, replacement] = deprecatedLabels[key] ?? [];
    if (version === undefined) continue;
    warnings.push(`${path}.nodeSelector[${key}]: deprecated since ${version}; use ${JSON.stringify(replacement)} instead`);
  }
  for (const key of Object.keys(metadata?.annotations ?? {})) {
    const found = deprecatedAnnotations.find(([name]) => (name.endsWith("/") ? key.startsWith(name) : key === name));
    if (found !== undefined) warnings.push(`${parent}metadata.annotations[${key}]: ${found[1]}`);
  }
  for (const field of ["initContainers", "containers"] as const) {
    for (const [index, container] of (spec[field] ?? []).entries()) {
      warnings.push(...containerWarnings(container, `${path}.${field}[${index}]`));
    }
  }
  return warnings;
}

function containerWarnings({ env = [], ports = [], resources }: DeepReadonly<Container>, path: string): string[] {
  const warnings: string[] = [];
  const names = new Set<string>();
  for (const [index, { name }] of env.entries()) {
    const definition = `previous definition of ${JSON.stringify(name)}, which may be dropped when using apply`;
    if (names.has(name)) warnings.push(`${path}.env[${index}]: hides ${definition}`);
    names.add(name);
  }
  const known = new Map<string, number>();
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
