import type { DeepReadonly } from "@keelson/api-machinery";
import { ConfigMap, type ConfigMapObject, Namespace } from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import { startTestEnvironment } from "@keelson/apiserver/testing";
import { createClient } from "@keelson/client";
import { silentLogger } from "@keelson/controller";
import { expect, test } from "vitest";
import { rootCaConfigMap, startRootCaPublisher } from "./root-ca-publisher.ts";

test("every namespace has the cluster's CA, which is restored when it is deleted or changed", async () => {
  await using environment = await startTestEnvironment();
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  const common = { clock: systemClock, random: Math.random, log: silentLogger };
  const publisher = startRootCaPublisher({ client, rootCa: "PEM", ...common });
  await client.create(Namespace, { metadata: { name: "team" } });
  const key = { namespace: "team", name: rootCaConfigMap };
  const isPublished = ({ data }: DeepReadonly<ConfigMapObject>): boolean =>
    data?.["ca.crt"] === "PEM" && data["b"] === undefined;
  try {
    await expect.poll(() => client.get(ConfigMap, key).then(isPublished, () => false)).toBe(true);
    const { uid, annotations } = (await client.get(ConfigMap, key)).metadata;
    expect(annotations?.["kubernetes.io/description"]).toMatch(/^Contains a CA bundle/);
    await client.patch(ConfigMap, key, { type: "merge", body: { data: { "ca.crt": "other", b: "more" } } });
    await expect.poll(() => client.get(ConfigMap, key).then(isPublished)).toBe(true);
    await client.delete(ConfigMap, key);
    const isNew = (object: DeepReadonly<ConfigMapObject>): boolean => isPublished(object) && object.metadata.uid !== uid;
    await expect.poll(() => client.get(ConfigMap, key).then(isNew, () => false)).toBe(true);
    expect((await client.get(ConfigMap, { namespace: "default", name: rootCaConfigMap })).data).toEqual({ "ca.crt": "PEM" });
  } finally {
    await publisher.stop();
  }
});
