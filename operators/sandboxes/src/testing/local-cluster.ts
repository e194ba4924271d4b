import { join } from "node:path";
import { CustomResourceDefinition } from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import { serveApi, systemRandom } from "@keelson/apiserver";
import { type Client, createClient } from "@keelson/client";
import { startCluster, startKubelet } from "@keelson/cluster";
import { silentLogger } from "@keelson/controller";
import { sandboxes } from "../operator.ts";

/** A local cluster without the operator: API server, controllers and a node. */
export interface LocalCluster {
  readonly kubeconfig: string;
  /** Has all permissions. */
  readonly client: Client;
  /** A client that acts as this user, subject to RBAC. */
  as(user: { readonly username: string; readonly groups: readonly string[] }): Client;
  /** Stops the API and the node; Pods keep running. */
  stop(): Promise<void>;
}

/** Starts a cluster below `dir` with the family's CRDs, on the data of an earlier one if there is any. */
export async function startLocalCluster(dir: string): Promise<LocalCluster> {
  const common = { clock: systemClock, random: Math.random, log: silentLogger };
  const api = await serveApi({ dataDir: join(dir, "api"), clock: systemClock, random: systemRandom, port: 0 });
  const client = createClient({ transport: api.server.transport(), fieldManager: "test" });
  for (const { crd } of sandboxes.resources) {
    await client.apply(CustomResourceDefinition, { metadata: { name: crd.metadata.name ?? "" }, spec: crd.spec } as never, {
      fieldManager: "test",
    });
  }
  const kinds = {
    list: () =>
      api.server.resources
        .list()
        .filter(({ verbs }) => verbs.includes("delete") && verbs.includes("watch"))
        .map(({ group, version, kind, plural, scope }) => ({ group, version, kind, plural, scope })),
    onChange: (listener: () => void) => api.server.resources.onChange(listener),
  };
  const cluster = await startCluster({ client, kinds, ...common });
  const kubelet = await startKubelet({ client, dataDir: join(dir, "node"), ...common });
  return {
    kubeconfig: api.kubeconfig,
    client,
    as: (user) => createClient({ transport: api.server.transport({ user }), fieldManager: "test" }),
    async stop() {
      await kubelet.stop();
      await cluster.stop();
      await api.close();
    },
  };
}
