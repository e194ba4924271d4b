import type { DeepReadonly } from "@keelson/api-machinery";
import type { IntegrationTestSpec } from "../api/integration-test.ts";

/** Namespace of the objects of a step that name none. `home`: the namespace of the round in the cluster of the test. */
export function stepNamespace(
  { clusters = [] }: Pick<DeepReadonly<IntegrationTestSpec>, "clusters">,
  { cluster }: { readonly cluster?: string | undefined },
  home: string,
): string {
  return cluster === undefined ? home : (clusters.find(({ name }) => name === cluster)?.namespace ?? "default");
}
