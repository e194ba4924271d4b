import { controllerReference, defineResource, isBeingDeleted, type ObjectType, setCondition } from "@keelson/api-machinery";
import { Namespace, RoleBinding } from "@keelson/api-machinery/kinds";
import { conditionsSchema } from "@keelson/api-machinery/schema";
import { type ControllerDefinition, defineController } from "@keelson/controller";
import { Type } from "typebox";

/** A team and the users who may edit its namespace. */
export const Team = defineResource({
  group: "example.com",
  version: "v1",
  kind: "Team",
  plural: "teams",
  scope: "Cluster",
  description: "A team with a namespace.",
  spec: Type.Object({ members: Type.Array(Type.String({ minLength: 1 }), { maxItems: 100 }) }),
  status: Type.Object({ conditions: Type.Optional(conditionsSchema()) }),
});
export type Team = ObjectType<typeof Team>;

/**
 * Gives every Team a namespace that its members may edit. A cluster-scoped object may own objects in any namespace, and its requests
 * have no namespace.
 */
export const teamController: ControllerDefinition = defineController({
  name: "team",
  for: Team,
  owns: [Namespace, RoleBinding],
  async reconcile({ name }, { cache, client, clock, signal }) {
    const team = cache.get(Team, { name });
    if (team === undefined || isBeingDeleted(team)) return;
    const namespace = `team-${name}`;
    const ownerReferences = [controllerReference(team)];
    await client.apply(Namespace, { metadata: { name: namespace, ownerReferences } }, { signal });
    await client.apply(
      RoleBinding,
      {
        metadata: { namespace, name: "members", ownerReferences },
        roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "edit" },
        subjects: team.spec.members.map((user) => ({ apiGroup: "rbac.authorization.k8s.io", kind: "User", name: user })),
      },
      { signal },
    );
    const ready = {
      type: "Ready",
      status: true,
      reason: "Applied",
      message: `${team.spec.members.length} members may edit namespace ${namespace}`,
      observedGeneration: team.metadata.generation,
    };
    const conditions = setCondition(team.status?.conditions, ready, clock.now());
    if (conditions === team.status?.conditions) return;
    await client.applyStatus(Team, { metadata: { name }, status: { conditions } }, { signal });
  },
});
