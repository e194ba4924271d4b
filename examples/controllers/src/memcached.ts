import { controllerReference, jsonEquals, type ObjectType, defineResource, isBeingDeleted } from "@keelson/api-machinery";
import { Service, StatefulSet } from "@keelson/api-machinery/kinds";
import { type ControllerDefinition, defineController } from "@keelson/controller";
import { Type } from "typebox";

/** A group of memcached servers. */
export const Memcached = defineResource({
  group: "example.com",
  version: "v1",
  kind: "Memcached",
  plural: "memcacheds",
  scope: "Namespaced",
  description: "A group of memcached servers.",
  spec: Type.Object({
    replicas: Type.Integer({ minimum: 0, maximum: 100, default: 1 }),
    memoryMiB: Type.Integer({ minimum: 16, default: 64 }),
  }),
  status: Type.Object({
    readyReplicas: Type.Integer({ minimum: 0 }),
    observedGeneration: Type.Optional(Type.Integer()),
  }),
});
export type Memcached = ObjectType<typeof Memcached>;

const port = 11_211;

/**
 * Runs memcached in a StatefulSet behind a headless Service. Both are owned, so changes of them lead to a reconcile, and the garbage
 * collector deletes them with their owner.
 */
export const memcachedController: ControllerDefinition = defineController({
  name: "memcached",
  for: Memcached,
  owns: [StatefulSet, Service],
  async reconcile(request, { cache, client, signal }) {
    const memcached = cache.get(Memcached, request);
    if (memcached === undefined || isBeingDeleted(memcached)) return;
    const { replicas, memoryMiB } = memcached.spec;
    const labels = { "app.kubernetes.io/name": "memcached", "app.kubernetes.io/instance": request.name };
    const metadata = { ...request, labels, ownerReferences: [controllerReference(memcached)] };
    await client.apply(
      Service,
      { metadata, spec: { clusterIP: "None", selector: labels, ports: [{ name: "memcached", port }] } },
      { signal },
    );
    const args = ["memcached", "-m", String(memoryMiB), "-p", String(port)];
    const container = { name: "memcached", image: "memcached:1.6", args, ports: [{ containerPort: port }] };
    await client.apply(
      StatefulSet,
      {
        metadata,
        spec: {
          replicas,
          serviceName: request.name,
          selector: { matchLabels: labels },
          template: { metadata: { labels }, spec: { containers: [container] } },
        },
      },
      { signal },
    );
    const status = {
      readyReplicas: cache.get(StatefulSet, request)?.status?.readyReplicas ?? 0,
      ...(memcached.metadata.generation === undefined ? {} : { observedGeneration: memcached.metadata.generation }),
    };
    if (jsonEquals(memcached.status, status)) return;
    await client.applyStatus(Memcached, { metadata: request, status }, { signal });
  },
});
