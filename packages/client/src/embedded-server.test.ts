import type { KubernetesObject, ResourceType } from "@keelson/api-machinery";
import { systemClock } from "@keelson/api-machinery/time";
import { serveApi, type ServedApi, systemRandom } from "@keelson/apiserver";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { connect, findConnection } from "./kubeconfig/connect.ts";
import { createClient } from "./client/create-client.ts";
import { createHttpTransport } from "./transport/http-transport.ts";

interface ConfigMap extends KubernetesObject {
  data?: Record<string, string>;
}
const configMaps: ResourceType<ConfigMap> = {
  group: "",
  version: "v1",
  kind: "ConfigMap",
  plural: "configmaps",
  scope: "Namespaced",
};

let folder: string;
let api: ServedApi;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "client-"));
  api = await serveApi({
    dataDir: folder,
    port: 0,
    clock: systemClock,
    random: systemRandom,
  });
});
afterEach(async () => {
  await api.close();
  await rm(folder, { recursive: true });
});

test("connects over TLS with a kubeconfig, and watches its own writes", async () => {
  const client = await connect({ kubeconfig: api.kubeconfig, env: {} });
  const key = { namespace: "default", name: "c" };
  const watch = await client.watch(configMaps, { namespace: "default", fieldSelector: "metadata.name=c", timeoutSeconds: 60 });
  await client.create(configMaps, { metadata: key, data: { n: "1" } });
  await client.apply(configMaps, { metadata: key, data: { n: "2" } });
  expect((await client.get(configMaps, key)).data).toEqual({ n: "2" });
  await client.delete(configMaps, key);
  const seen: string[] = [];
  for await (const event of watch) {
    seen.push(`${event.type} ${event.object.data?.["n"]}`);
    if (event.type === "DELETED") break;
  }
  expect(seen).toEqual(["ADDED 1", "MODIFIED 2", "DELETED 2"]);
  await expect(client.get(configMaps, key)).rejects.toMatchObject({ reason: "NotFound", code: 404 });
  await client.close();
});

test("gets only metadata if requested", async () => {
  const client = await connect({ kubeconfig: api.kubeconfig, env: {} });
  const key = { namespace: "default", name: "m" };
  await client.create(configMaps, { metadata: key, data: { n: "1" } });
  const options = { namespace: "default", fieldSelector: "metadata.name=m", metadataOnly: true };
  const { items, metadata } = await client.list(configMaps, options);
  expect(items).toMatchObject([{ metadata: key }]);
  expect(items[0]).not.toHaveProperty("data");
  const watch = await client.watch(configMaps, {
    ...options,
    resourceVersion: metadata.resourceVersion ?? "",
    timeoutSeconds: 60,
  });
  await client.apply(configMaps, { metadata: key, data: { n: "2" } });
  for await (const { type, object } of watch) {
    expect([type, object.metadata.name, object.data]).toEqual(["MODIFIED", "m", undefined]);
    break;
  }
  watch.close();
  await client.close();
});

test("reports an untrusted server as a Tls error, and missing credentials as Unauthorized", async () => {
  const { transport } = await findConnection({ kubeconfig: api.kubeconfig, env: {} });
  const { ca: _, ...untrusting } = transport;
  const stranger = createClient({ transport: createHttpTransport(untrusting), fieldManager: "t" });
  await expect(stranger.list(configMaps)).rejects.toMatchObject({ name: "TransportError", code: "Tls" });
  await stranger.close();
  const { credentials: __, ...anonymous } = transport;
  const nobody = createClient({ transport: createHttpTransport({ ...anonymous, token: "wrong" }), fieldManager: "t" });
  await expect(nobody.list(configMaps)).rejects.toMatchObject({ reason: "Unauthorized" });
  await nobody.close();
});

test("rejects a response that is longer than its limit", async () => {
  const { transport } = await findConnection({ kubeconfig: api.kubeconfig, env: {} });
  const client = createClient({ transport: createHttpTransport({ ...transport, maxBodyBytes: 5_000 }), fieldManager: "t" });
  const key = { namespace: "default", name: "long" };
  await client.create(configMaps, { metadata: { ...key, name: "short" } });
  const body = { metadata: key, data: { text: "x".repeat(6_000) } };
  await expect(client.create(configMaps, body)).rejects.toMatchObject({ name: "TransportError", code: "InvalidResponse" });
  await client.close();
});
