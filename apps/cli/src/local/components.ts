/** Components that `keelson up --only` accepts in addition to the operators. */
export const ownComponents = ["apiserver", "cluster"] as const;

/** Adds the components that the chosen ones depend on: everything needs the API server. */
export function withDependencies(chosen: ReadonlySet<string>): ReadonlySet<string> {
  return new Set(["apiserver", ...chosen]);
}
