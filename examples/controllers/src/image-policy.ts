import { defineResource, isBeingDeleted, jsonEquals, type DeepReadonly, type ObjectType } from "@keelson/api-machinery";
import { Deployment, type DeploymentObject } from "@keelson/api-machinery/kinds";
import { type ControllerDefinition, defineController, generationChanged, objectKey, watchOf } from "@keelson/controller";
import { Type } from "typebox";

/** Registries that images of Deployments may come from. */
export const ImagePolicy = defineResource({
  group: "example.com",
  version: "v1",
  kind: "ImagePolicy",
  plural: "imagepolicies",
  scope: "Cluster",
  description: "Registries that images of Deployments may come from.",
  spec: Type.Object({ allowedRegistries: Type.Array(Type.String({ minLength: 1 }), { minItems: 1 }) }),
  status: Type.Object({ violations: Type.Array(Type.String()) }),
});
export type ImagePolicy = ObjectType<typeof ImagePolicy>;

/** Maximum number of violations in the status, because the size of an object is limited. */
const maxReported = 100;

/**
 * Audits the images of all Deployments. It owns none of them: each change of a spec leads to a reconcile of every policy, which
 * evaluates all Deployments from the cache. New violations are reported as events on the Deployment.
 */
export const imagePolicyController: ControllerDefinition = defineController({
  name: "image-policy",
  for: ImagePolicy,
  watches: [watchOf(Deployment, (_, { cache }) => cache.list(ImagePolicy).map(objectKey), [generationChanged])],
  async reconcile({ name }, { cache, client, events, signal }) {
    const policy = cache.get(ImagePolicy, { name });
    if (policy === undefined || isBeingDeleted(policy)) return;
    const { allowedRegistries } = policy.spec;
    const violating = cache.list(Deployment).filter((deployment) => hasForbiddenImage(deployment, allowedRegistries));
    const violations = violating.map(nameOf).sort().slice(0, maxReported);
    if (jsonEquals(policy.status, { violations })) return;
    await client.applyStatus(ImagePolicy, { metadata: { name }, status: { violations } }, { signal });
    const known = new Set(policy.status?.violations);
    for (const deployment of violating) {
      if (known.has(nameOf(deployment))) continue;
      const note = `images must come from ${allowedRegistries.join(" or ")} (ImagePolicy ${name})`;
      events.event(deployment, { type: "Warning", reason: "ForbiddenImage", note });
    }
  },
});

function hasForbiddenImage({ spec }: DeepReadonly<DeploymentObject>, allowed: readonly string[]): boolean {
  const { containers, initContainers = [] } = spec?.template?.spec ?? { containers: [] };
  return [...initContainers, ...containers].some(
    ({ image = "" }) => !allowed.some((registry) => image.startsWith(`${registry}/`)),
  );
}

const nameOf = ({ metadata: { namespace, name } }: DeepReadonly<DeploymentObject>): string => `${namespace}/${name}`;
