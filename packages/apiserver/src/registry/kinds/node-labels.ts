/** Deprecated node labels: the version and the replacement. */
const deprecatedLabels: Readonly<Record<string, readonly [version: string, replacement: string]>> = {
  "beta.kubernetes.io/arch": ["v1.14", "kubernetes.io/arch"],
  "beta.kubernetes.io/instance-type": ["v1.17", "node.kubernetes.io/instance-type"],
  "beta.kubernetes.io/os": ["v1.14", "kubernetes.io/os"],
  "failure-domain.beta.kubernetes.io/region": ["v1.17", "topology.kubernetes.io/region"],
  "failure-domain.beta.kubernetes.io/zone": ["v1.17", "topology.kubernetes.io/zone"],
};

/** The deprecation of a node label: `deprecated since v1.14; use "kubernetes.io/arch" instead`. Undefined for other labels. */
export function nodeLabelWarning(key: string): string | undefined {
  if (!Object.hasOwn(deprecatedLabels, key)) return undefined;
  const [version, replacement] = deprecatedLabels[key] ?? [];
  return `deprecated since ${version}; use ${JSON.stringify(replacement)} instead`;
}
