/** Names that `keelson up --only` takes besides those of the operators. */
export const ownComponents = ["apiserver", "cluster"] as const;

/** What `--only` needs to start `name`: everything talks to the API server. */
export function withNeeded(chosen: ReadonlySet<string>): ReadonlySet<string> {
  return new Set(["apiserver", ...chosen]);
}
