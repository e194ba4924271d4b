import { controllerReference, defineResource, isBeingDeleted, jsonEquals, type ObjectType } from "@keelson/api-machinery";
import { Secret } from "@keelson/api-machinery/kinds";
import { type ControllerDefinition, defineController, objectKey, readOf, watchOf } from "@keelson/controller";
import { Type } from "typebox";

/** A copy of a Secret of another namespace. */
export const SecretMirror = defineResource({
  group: "example.com",
  version: "v1",
  kind: "SecretMirror",
  plural: "secretmirrors",
  scope: "Namespaced",
  description: "A copy of a Secret of another namespace.",
  spec: Type.Object({
    source: Type.Object({ namespace: Type.String({ minLength: 1 }), name: Type.String({ minLength: 1 }) }),
  }),
  status: Type.Object({ copied: Type.Boolean() }),
});
export type SecretMirror = ObjectType<typeof SecretMirror>;

const sourceKey = (namespace: string | undefined, name: string): string => `${namespace ?? ""}/${name}`;

/**
 * Copies Secrets between namespaces. A source does not know its mirrors, and an owner reference cannot cross namespaces, so
 * an index of the mirrors by source finds the ones that a changed Secret affects.
 */
export const secretMirrorController: ControllerDefinition = defineController({
  name: "secret-mirror",
  for: SecretMirror,
  owns: [Secret],
  reads: [readOf(SecretMirror, { source: ({ spec: { source } }) => [sourceKey(source.namespace, source.name)] })],
  watches: [
    watchOf(Secret, ({ metadata }, { cache }) =>
      cache.list(SecretMirror, { index: ["source", sourceKey(metadata.namespace, metadata.name)] }).map(objectKey),
    ),
  ],
  async reconcile(request, { cache, client, signal }) {
    const mirror = cache.get(SecretMirror, request);
    if (mirror === undefined || isBeingDeleted(mirror)) return;
    const source = cache.get(Secret, mirror.spec.source);
    if (source !== undefined) {
      const metadata = { ...request, ownerReferences: [controllerReference(mirror)] };
      const { data = {}, type = "Opaque" } = source;
      await client.apply(Secret, { metadata, type, data }, { signal });
    } else if (cache.get(Secret, request) !== undefined) {
      await client.delete(Secret, request, { signal });
    }
    const status = { copied: source !== undefined };
    if (jsonEquals(mirror.status, status)) return;
    await client.applyStatus(SecretMirror, { metadata: request, status }, { signal });
  },
});
