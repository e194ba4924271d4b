import { formatMicroTime } from "@keelson/api-machinery/time";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { ClusterRole, CustomResourceDefinition, Deployment, Lease } from "@keelson/api-machinery/kinds";
import { startTestEnvironment } from "@keelson/apiserver/testing";
import { createClient } from "@keelson/client";
import type { Operator } from "@keelson/operator";
import { mpi } from "@keelson/mpi";
import { expect, test } from "vitest";
import { installParts, renderInstallation } from "../install-parts.ts";
import { readValues } from "../values.ts";
import { applyObjects } from "./apply-objects.ts";
import { type CheckResult, verifyOperator } from "./verification.ts";

const namespace = "keelson-system";
const version = "1.2.3";
const operators: readonly Operator[] = [mpi];

test("says what is wrong with an operator and which command fixes it", { timeout: 60_000 }, async () => {
  const clock = createVirtualClock();
  await using environment = await startTestEnvironment();
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  const signal = AbortSignal.timeout(50_000);
  const verify = async (): Promise<Partial<Record<CheckResult["check"], string | undefined>>> => {
    const results = await verifyOperator({ client, clock, namespace, operator: mpi, version, signal });
    for (const { problem, fix } of results) expect(problem === undefined).toBe(fix === undefined);
    return Object.fromEntries(results.map(({ check, problem }) => [check, problem]));
  };
  expect(await verify()).toEqual({ rollout: "not installed in namespace keelson-system" });

  const { values } = readValues({ operators, version, sources: [{ namespace: { create: true } }] });
  const objects = renderInstallation(installParts(operators), { values, namespace });
  await applyObjects({ client, objects, dryRun: false, onResult: () => {}, signal });
  expect(await verify()).toEqual({ rollout: "0 of 2 replicas are ready", leader: "no replica leads" });

  const renewTime = formatMicroTime(clock.now());
  await client.create(Lease, {
    metadata: { name: "keelson-mpi", namespace },
    spec: { holderIdentity: "pod-1", leaseDurationSeconds: 15, renewTime },
  });
  expect((await verify()).leader).toBeUndefined();
  await clock.advance(30_000);
  expect((await verify()).leader).toBe("pod-1 has not renewed its lease for 30 s");

  await client.patch(ClusterRole, { name: "keelson:mpi" }, { type: "json", operations: [{ op: "remove", path: "/rules/0" }] });
  expect((await verify()).rights).toBe(
    "service account mpi may not get rhinojobs, list rhinojobs, watch rhinojobs, delete rhinojobs",
  );

  const crd = { name: "rhinojobs.openrhino.org" };
  const path = "/spec/versions/0/schema/openAPIV3Schema/description";
  const changed = [{ op: "replace" as const, path, value: "changed" }];
  await client.patch(CustomResourceDefinition, crd, { type: "json", operations: changed });
  expect((await verify()).kinds).toBe("rhinojobs.openrhino.org differs from this version's");
  await client.delete(CustomResourceDefinition, crd);
  await expect.poll(async () => (await verify()).kinds).toBe("rhinojobs.openrhino.org is missing");

  const operations = [
    { op: "replace" as const, path: "/spec/template/spec/containers/0/image", value: "keelson/keelson:1.0.0" },
  ];
  await client.patch(Deployment, { name: "keelson-mpi", namespace }, { type: "json", operations });
  expect((await verify()).rollout).toBe("runs the image keelson/keelson:1.0.0, which is not of this command's version 1.2.3");
});
