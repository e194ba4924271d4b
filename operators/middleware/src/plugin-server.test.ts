import { ConfigMap } from "@keelson/api-machinery/kinds";
import { startTestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { startOperator } from "@keelson/operator";
import { expect, test } from "vitest";
import { labels, pluginNamespace as namespace } from "./api/names.ts";
import { createMiddleware } from "./operator.ts";
import { redisPlugin } from "./plugin/redis-plugin.ts";
import { createPluginServer } from "./plugin-server.ts";

const data = { "plugin.yaml": "apiVersion: example.org/v1\n" };
const other = { ...redisPlugin, name: "other", version: "2.0.0", data };
const servers = [createPluginServer([redisPlugin, other])];
const operator = { ...createMiddleware(), controllers: () => [], servers };

test("writes built-in plugins that are missing or differ, and no others", async () => {
  await using environment = await startTestEnvironment({ crds: operator.resources.map(({ crd }) => crd) });
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  /** Starts the operator and resolves to the ConfigMaps that it has applied. */
  const appliedByStart = async (): Promise<string[]> => {
    const applied: string[] = [];
    const apply: Client["apply"] = (type, object, options) => {
      if (type.kind === "ConfigMap") applied.push(object.metadata.name ?? "");
      return client.apply(type, object, options);
    };
    const recorded = new Proxy(client, {
      get(target, name) {
        if (name === "apply") return apply;
        const value: unknown = Reflect.get(target, name);
        return typeof value === "function" ? (value.bind(target) as unknown) : value;
      },
    });
    await using _ = await startOperator({ operator, client: recorded, dataDir: "/nonexistent" });
    return applied;
  };
  const patch = (body: object): Promise<unknown> =>
    client.patch(ConfigMap, { namespace, name: "other-v2.0.0" }, { type: "merge", body });
  expect(await appliedByStart()).toEqual(["redis-v1.0.0", "other-v2.0.0"]);
  expect(await appliedByStart()).toEqual([]);
  await patch({ data: { "plugin.yaml": "changed" } });
  expect(await appliedByStart()).toEqual(["other-v2.0.0"]);
  await patch({ metadata: { labels: { [labels.plugin]: "another" } } });
  expect(await appliedByStart()).toEqual(["other-v2.0.0"]);
  const restored = await client.get(ConfigMap, { namespace, name: "other-v2.0.0" });
  expect(restored.metadata.labels?.[labels.plugin]).toBe("other");
  expect(restored.data).toEqual(data);
});
