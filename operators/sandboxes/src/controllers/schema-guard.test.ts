import type { DeepReadonly } from "@keelson/api-machinery";
import { CustomResourceDefinition, type CustomResourceDefinitionObject } from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import { startTestEnvironment } from "@keelson/apiserver/testing";
import { createClient } from "@keelson/client";
import { watched } from "@keelson/client/testing";
import { createManager } from "@keelson/controller";
import { expect, it } from "vitest";
import { Sandbox } from "../api/sandbox.ts";
import { createSchemaGuard, missingFields, schemaCondition } from "./schema-guard.ts";

const name = Sandbox.crd.metadata.name ?? "";

/** Our CRD without a field of the status, as the original's. */
function withoutRuntime(): typeof Sandbox.crd {
  const crd = structuredClone(Sandbox.crd);
  for (const version of crd.spec.versions) {
    const schema = version.schema?.openAPIV3Schema as { properties: Record<string, { properties: Record<string, unknown> }> };
    delete schema.properties.status?.properties.runtime;
  }
  return crd;
}

const conditionOf = (crd: DeepReadonly<CustomResourceDefinitionObject> | undefined) =>
  crd?.status?.conditions?.find(({ type }) => type === schemaCondition);

it("names missing fields, and accepts additional ones", () => {
  expect(missingFields(Sandbox.crd, Sandbox.crd)).toEqual([]);
  expect(missingFields(withoutRuntime(), Sandbox.crd)).toEqual(["status.runtime"]);
  expect(missingFields(Sandbox.crd, withoutRuntime())).toEqual([]);
  expect(missingFields({ ...Sandbox.crd, spec: { ...Sandbox.crd.spec, versions: [] } }, Sandbox.crd)).toEqual([
    "version v1alpha1",
  ]);
});

it("restores a CRD that another installation replaced, and reports both in a condition", async () => {
  await using environment = await startTestEnvironment({ crds: [Sandbox.crd] });
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  const controllers = [createSchemaGuard()];
  const manager = createManager({ client, clock: systemClock, controllers, name: "test", random: Math.random });
  const running = manager.start();
  try {
    const present = await client.get(CustomResourceDefinition, { name });
    await client.update(CustomResourceDefinition, { ...present, spec: withoutRuntime().spec });
    const restored = await watched(
      client,
      CustomResourceDefinition,
      name,
      (crd) =>
        crd !== undefined &&
        crd.metadata.generation !== present.metadata.generation &&
        missingFields(crd, Sandbox.crd).length === 0,
      undefined,
    );
    expect(restored && missingFields(restored, Sandbox.crd)).toEqual([]);
    const reported = await watched(client, CustomResourceDefinition, name, (crd) => conditionOf(crd)?.status === "True");
    expect(conditionOf(reported)).toMatchObject({ reason: "Restored", message: "the schema was restored" });
    // The API server's own conditions stay.
    expect(reported?.status?.conditions?.map(({ type }) => type)).toContain("Established");
  } finally {
    await manager.stop();
    await running;
  }
});
