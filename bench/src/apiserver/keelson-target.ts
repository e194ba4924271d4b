import type { KubernetesObject, ResourceType } from "@keelson/api-machinery";
import type { Client } from "@keelson/client";
import type { WatchTarget } from "./fan-out.ts";
import { type LoadTarget, payload } from "./load.ts";

/** The objects of the benchmarks. */
export interface Stored extends KubernetesObject {
  data?: { readonly text: string };
}

const storedKind: ResourceType<Stored> = {
  group: "",
  version: "v1",
  kind: "ConfigMap",
  plural: "configmaps",
  scope: "Namespaced",
};

const namespace = "default";

/** ConfigMaps of 2 KB, over any transport of the client. */
export function keelsonTarget(client: Client): LoadTarget {
  let updates = 0;
  return {
    create: (name) => client.create(storedKind, object(name)),
    update: (name) => client.update(storedKind, object(name, `${payload}${updates++}`)),
    get: (name) => client.get(storedKind, { namespace, name }),
    list: async () => (await client.list(storedKind, { namespace })).items.length,
  };
}

/** Watches of the same writes. */
export function keelsonWatchTarget(client: Client): WatchTarget {
  return {
    write: (name) => client.create(storedKind, object(name)),
    async watch(onWritten) {
      const list = await client.list(storedKind, { namespace, limit: 1 });
      const watch = await client.watch(storedKind, { namespace, resourceVersion: list.metadata.resourceVersion ?? "" });
      const reading = (async () => {
        for await (const event of watch) if (event.type === "ADDED") onWritten(event.object.metadata.name ?? "");
      })();
      return async () => {
        watch.close();
        await reading;
      };
    },
  };
}

function object(name: string, text = payload): Stored {
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { namespace, name }, data: { text } };
}
