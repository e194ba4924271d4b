import { type DeepReadonly, isJsonObject } from "@keelson/api-machinery";
import { CustomResourceDefinition, type CustomResourceDefinitionObject } from "@keelson/api-machinery/kinds";
import { formatTime } from "@keelson/api-machinery/time";
import { type ControllerDefinition, defineController, type ReconcileContext, type Request } from "@keelson/controller";
import { Sandbox } from "../api/sandbox.ts";
import { SandboxPool } from "../api/sandbox-pool.ts";
import { SandboxVolume } from "../api/sandbox-volume.ts";

const fieldManager = "sandboxes-schema-guard";

/** Names of the CRDs that the operator restores. */
export const guardedCrds = [
  Sandbox.crd.metadata.name ?? "",
  SandboxPool.crd.metadata.name ?? "",
  SandboxVolume.crd.metadata.name ?? "",
] as const;

/**
 * Restores the operator's CRDs when another installation has replaced them. Applying the original's CRD files drops fields that the
 * operator needs, and the API server would then prune its statuses. A newer CRD with additional fields is left alone.
 */
export function createSchemaGuard(): ControllerDefinition {
  return defineController({
    name: "sandboxes-schema-guard",
    for: CustomResourceDefinition,
    predicates: [({ object }) => guardedCrds.includes(object.metadata.name ?? "")],
    reconcile,
  });
}

/** Condition of the operator's CRDs: whether the schema has every field that the operator needs. */
export const schemaCondition = "SandboxSchemaComplete";

async function reconcile({ name }: Request, context: ReconcileContext): Promise<undefined> {
  const { cache, client, events, log } = context;
  const present = cache.get(CustomResourceDefinition, { name });
  const { crd } = [Sandbox, SandboxPool, SandboxVolume].find((resource) => resource.crd.metadata.name === name) ?? {};
  if (present === undefined || crd === undefined) return;
  const missing = missingFields(present, crd);
  if (missing.length === 0) {
    // Also after a restore that was interrupted before its condition was written.
    const condition = present.status?.conditions?.find(({ type }) => type === schemaCondition);
    if (condition?.status === "False") await report(context, name, "True", "Restored", "the schema was restored");
    return;
  }
  const fields = missing.length > 5 ? `${missing.slice(0, 5).join(", ")} and ${missing.length - 5} more` : missing.join(", ");
  log.warn({ crd: name, missing }, "the CRD lacks fields that the operator needs; restoring it");
  await report(context, name, "False", "FieldsMissing", `the schema lacks ${fields}`);
  await client.apply(CustomResourceDefinition, { metadata: { name }, spec: crd.spec }, { fieldManager });
  events.event(present, {
    type: "Warning",
    reason: "SchemaRestored",
    note: `the schema lacked ${fields}, as after applying another installation's CRD; restored it`,
  });
}

/** Writes the condition {@link schemaCondition}. The restore that follows triggers the next reconcile. */
async function report(
  { client, clock }: ReconcileContext,
  name: string,
  status: "True" | "False",
  reason: string,
  message: string,
): Promise<void> {
  const condition = { type: schemaCondition, status, reason, message, lastTransitionTime: formatTime(clock.now()) };
  await client.applyStatus(
    CustomResourceDefinition,
    { metadata: { name }, status: { conditions: [condition] } },
    { fieldManager },
  );
}

/** Paths of the fields of `wanted` that `present` lacks, in the versions that both have; a missing version is `version NAME`. */
export function missingFields(
  present: DeepReadonly<CustomResourceDefinitionObject>,
  wanted: DeepReadonly<CustomResourceDefinitionObject>,
): readonly string[] {
  return wanted.spec.versions.flatMap((version) => {
    const found = present.spec.versions.find(({ name, served }) => name === version.name && served);
    if (found === undefined) return [`version ${version.name}`];
    return missingProperties(found.schema?.openAPIV3Schema, version.schema?.openAPIV3Schema, "");
  });
}

function missingProperties(present: unknown, wanted: unknown, path: string): readonly string[] {
  if (!isJsonObject(wanted)) return [];
  const found = isJsonObject(present) ? present : {};
  // Where anything is allowed, nothing is pruned.
  if (found["x-kubernetes-preserve-unknown-fields"] === true) return [];
  const properties = isJsonObject(wanted.properties) ? wanted.properties : {};
  const foundProperties = isJsonObject(found.properties) ? found.properties : {};
  const nested = Object.entries(properties).flatMap(([name, schema]) => {
    const field = path === "" ? name : `${path}.${name}`;
    return Object.hasOwn(foundProperties, name) ? missingProperties(foundProperties[name], schema, field) : [field];
  });
  return wanted.items === undefined ? nested : [...nested, ...missingProperties(found.items, wanted.items, `${path}[]`)];
}
