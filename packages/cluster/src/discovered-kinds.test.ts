import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ResourceType } from "@keelson/api-machinery";
import { CustomResourceDefinition } from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import { serveApi, systemRandom } from "@keelson/apiserver";
import { createClient, createHttpTransport, findConnection } from "@keelson/client";
import { silentLogger } from "@keelson/controller";
import { expect, onTestFinished, test } from "vitest";
import { discoverKinds } from "./discovered-kinds.ts";
import { storedKinds } from "./stored-kinds.ts";

test("discovers every deletable kind once, and follows CustomResourceDefinitions and APIServices", async () => {
  const dataDir = mkdtempSync(join(tmpdir(), "keelson-kinds-"));
  onTestFinished(() => rmSync(dataDir, { recursive: true }));
  const api = await serveApi({ dataDir, port: 0, clock: systemClock, random: systemRandom });
  onTestFinished(() => api.close());
  const connection = await findConnection({ kubeconfig: api.kubeconfig });
  const transport = createHttpTransport(connection.transport);
  const client = createClient({ transport, fieldManager: "test" });
  const options = { transport, client, clock: systemClock, random: Math.random, log: silentLogger };
  const kinds = await discoverKinds(options);
  const named = (source: { list(): readonly { readonly group: string; readonly plural: string }[] }): string[] =>
    source
      .list()
      .map(({ group, plural }) => `${plural}.${group}`)
      .sort();
  expect(named(kinds)).toEqual(named(storedKinds(api.server.resources)));

  const changed = new Promise<void>((resolve) => kinds.onChange(() => named(kinds).includes("lamps.example.org") && resolve()));
  await client.create(CustomResourceDefinition, {
    metadata: { name: "lamps.example.org" },
    spec: {
      group: "example.org",
      names: { kind: "Lamp", plural: "lamps" },
      scope: "Namespaced",
      versions: [{ name: "v1", served: true, storage: true, schema: { openAPIV3Schema: { type: "object" } } }],
    },
  });
  await changed;
  expect(kinds.list()).toContainEqual({
    group: "example.org",
    version: "v1",
    kind: "Lamp",
    plural: "lamps",
    scope: "Namespaced",
  });

  const isStale = (): boolean => kinds.staleVersions().includes("wardle.example.com/v1");
  const becameStale = new Promise<void>((resolve) => kinds.onChange(() => isStale() && resolve()));
  const apiService: ResourceType = {
    group: "apiregistration.k8s.io",
    version: "v1",
    kind: "APIService",
    plural: "apiservices",
    scope: "Cluster",
  };
  const object = {
    metadata: { name: "v1.wardle.example.com" },
    spec: {
      ...{ group: "wardle.example.com", version: "v1", groupPriorityMinimum: 2000, versionPriority: 15 },
      service: { namespace: "default", name: "none" },
    },
  };
  await client.create(apiService, object);
  await becameStale;
  const becameCurrent = new Promise<void>((resolve) => kinds.onChange(() => !isStale() && resolve()));
  await client.delete(apiService, { name: "v1.wardle.example.com" });
  await becameCurrent;
  await kinds.stop();
  await transport.close();
});
