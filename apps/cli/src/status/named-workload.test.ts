import { Event, Namespace, Pod } from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import { startTestEnvironment } from "@keelson/apiserver/testing";
import { createClient } from "@keelson/client";
import { App, Component, middleware } from "@keelson/middleware";
import { mpi } from "@keelson/mpi";
import { expect, test } from "vitest";
import { findWorkload, notFoundText } from "./named-workload.ts";
import { renderWorkload } from "./render-status.ts";

const namespace = "shop";
const own = (kind: string, owner: { readonly metadata: { readonly name?: string; readonly uid?: string } }) => [
  {
    apiVersion: "middleware.io/v1alpha1",
    kind,
    name: owner.metadata.name ?? "",
    uid: owner.metadata.uid ?? "",
    controller: true,
  },
];

test("finds a workload by kind, plural or short name, with what it owns and its events", async () => {
  await using environment = await startTestEnvironment({ crds: middleware.resources.map(({ crd }) => crd) });
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  const options = { client, clock: systemClock, operators: [middleware], signal: AbortSignal.timeout(30_000) };
  await client.create(Namespace, { metadata: { name: namespace } });
  const plugin = { name: "redis", version: "1.0.0" };
  const runtime = { name: "redis", version: "7.0" };
  const groups = [{ name: "nodes", replicas: 1 }];
  const app = await client.create(App, {
    metadata: { name: "cache", namespace },
    spec: { plugin, runtime, components: [{ name: "redis", groups }] },
  });
  const component = await client.create(Component, {
    metadata: { name: "cache-redis", namespace, ownerReferences: own("App", app) },
    spec: { appRef: { name: "cache" }, plugin, runtime, groups },
  });
  const containers = [{ name: "redis", image: "redis" }];
  await client.create(Pod, {
    metadata: { name: "cache-0", namespace, ownerReferences: own("Component", component) },
    spec: { containers },
  });
  const owners = [...own("Component", component), ...own("App", app).map((owner) => ({ ...owner, controller: false }))];
  await client.create(Pod, { metadata: { name: "cache-shared", namespace, ownerReferences: owners }, spec: { containers } });
  await client.create(Pod, { metadata: { name: "other", namespace }, spec: { containers } });
  await client.create(Event, {
    metadata: { name: "e", namespace },
    involvedObject: { kind: "Component", namespace, name: "cache-redis", uid: component.metadata.uid ?? "" },
    ...{ type: "Warning", reason: "Slow", message: "a replica lags" },
  });

  for (const kind of ["app", "App", "apps", "mwapp"]) {
    const found = await findWorkload(`${kind}/${namespace}/cache`, options);
    expect(found?.dependents.map(({ depth, name }) => [depth, name])).toEqual([
      [1, "cache-redis"],
      [2, "cache-0"],
      [1, "cache-shared"],
    ]);
    expect(found?.events).toMatchObject([{ reason: "Slow", object: "Component/cache-redis", message: "a replica lags" }]);
  }
  const found = await findWorkload(`app/${namespace}/cache`, options);
  const lines = found === undefined ? [] : renderWorkload(found).split("\n");
  expect(lines[0]).toMatch(/^WORKLOAD +STATE +TIME +WAITS FOR$/);
  expect(lines[1]).toMatch(/^App shop\/cache +without status +\d+s$/);
  expect(lines[2]).toMatch(/^ {2}Component shop\/cache-redis +/);
  expect(lines[3]).toMatch(/^ {4}Pod shop\/cache-0 +Pending +/);
  expect(lines[7]).toMatch(/^\d+s +Warning +Slow +Component\/cache-redis +a replica lags$/);
  expect(await findWorkload("app/cache", options)).toBeUndefined();
});

test.each([
  ["app/cache", "app/cache: not found in namespace default: use KIND/NAMESPACE/NAME for another namespace"],
  ["app/shop/cache", "app/shop/cache: not found"],
  ["mpiqueue/large", "mpiqueue/large: not found"],
])("says where %s was looked up", (reference, message) => {
  expect(notFoundText(reference, [middleware, mpi])).toBe(message);
});

test.each([
  ["app", "app: must be KIND/NAME or KIND/NAMESPACE/NAME, such as app/cache"],
  ["a/b/c/d", "a/b/c/d: must be KIND/NAME"],
  ["app/", "app/: must be KIND/NAME"],
  ["job/x", "job/x: unknown kind job: must be one of app, backup, backupschedule, component, group"],
])("rejects %s", async (reference, message) => {
  const options = { client: {} as never, clock: systemClock, operators: [middleware], signal: AbortSignal.timeout(30_000) };
  await expect(findWorkload(reference, options)).rejects.toThrow(message);
});
