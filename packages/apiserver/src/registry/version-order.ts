const kubeVersion = /^v(\d+)(?:(alpha|beta)(\d+))?$/;

/**
 * Sorts versions by Kubernetes' preference: `v10`, `v2`, `v1`, `v11beta2`, `v10beta3`, `v3beta1`, `v12alpha1`, then other names in
 * alphabetical order.
 */
export function compareVersionPriority(a: string, b: string): number {
  const left = kubeVersion.exec(a);
  const right = kubeVersion.exec(b);
  if (left === null || right === null) {
    if (left !== null) return -1;
    if (right !== null) return 1;
    return a < b ? -1 : a > b ? 1 : 0;
  }
  return (
    stability(right[2]) - stability(left[2]) ||
    Number(right[1]) - Number(left[1]) ||
    Number(right[3] ?? 0) - Number(left[3] ?? 0)
  );
}

function stability(stage: string | undefined): number {
  return stage === undefined ? 2 : stage === "beta" ? 1 : 0;
}
