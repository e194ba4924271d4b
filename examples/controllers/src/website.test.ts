import { ConfigMap } from "@keelson/api-machinery/kinds";
import { startTestEnvironment } from "@keelson/apiserver/testing";
import { createClient } from "@keelson/client";
import { expect, test } from "vitest";
import { createWebsiteManager, Website, websiteCrd, WebsiteV1 } from "./website.ts";

test("defaults, validates and converts websites", async () => {
  await using environment = await startTestEnvironment({ crds: [websiteCrd] });
  const client = createClient({ transport: environment.transport(), fieldManager: "websites" });
  await using manager = createWebsiteManager(client);
  await manager.start();
  const key = { namespace: "default", name: "home" };

  const created = await client.create(WebsiteV1, { metadata: key, spec: { address: "Example.com" } });
  expect(created.spec.address).toBe("example.com:443");
  expect((await client.get(Website, key)).spec).toEqual({ host: "example.com", port: 443 });
  await expect.poll(() => manager.cache.get(Website, key)?.spec.host).toBe("example.com");
  const url = async () => (await client.get(ConfigMap, { ...key, name: "website-home" })).data?.["url"];
  await expect.poll(() => url().catch(() => undefined)).toBe("https://example.com:443");

  const other = { metadata: { ...key, name: "other" }, spec: { host: "example.com" } };
  await expect(client.create(Website, other)).rejects.toThrow('spec.host: Duplicate value: "example.com"');
  const moved = client.patch(Website, key, { type: "merge", body: { spec: { host: "b.com" } } });
  await expect(moved).rejects.toThrow("spec.host: Forbidden: cannot be changed");

  const labels = { "example.com/protected": "true" };
  await client.patch(Website, key, { type: "merge", body: { metadata: { labels } } });
  await expect(client.delete(Website, key)).rejects.toThrow(
    'admission webhook "validate.websites.example.com" denied the request',
  );
});
