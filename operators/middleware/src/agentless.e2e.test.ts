import { readFileSync } from "node:fs";
import { type DeepReadonly, draft } from "@keelson/api-machinery";
import { ConfigMap, type ConfigMapObject, type PodObject } from "@keelson/api-machinery/kinds";
import { expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import type { App } from "./api/app.ts";
import { startRedisEnvironment } from "./testing/redis-environment.ts";

const example = readFileSync(new URL("../../../examples/middleware/web.yaml", import.meta.url), "utf8");
const [plugin, app] = parseAllDocuments(example).map((document) => document.toJSON() as object);

async function titleOf(pod: DeepReadonly<PodObject>): Promise<string> {
  const response = await fetch(`http://${pod.status?.podIP ?? ""}:8080/index.html`, { signal: AbortSignal.timeout(20_000) });
  return (await response.text()).replace(/<\/?h1>|\n/g, "");
}

it("runs an unmodified web server without an agent: rolling changes, and a canary that does not start is rolled back", {
  timeout: 240_000,
}, async () => {
  await using web = await startRedisEnvironment({ group: "cache-server-pods" });
  const { client } = web;
  const uids = async () => new Map((await web.pods()).map(({ metadata }) => [metadata.name, metadata.uid]));
  const titles = async () => Promise.all((await web.pods()).map(titleOf));
  const { metadata, data } = plugin as ConfigMapObject;
  await client.create(ConfigMap, { metadata: { ...metadata, namespace: "default" }, data: { ...data } });
  await web.createApp(draft((app as App).spec) as App["spec"]);
  await web.settled(1);
  expect(await titles()).toEqual(["Hello", "Hello", "Hello"]);
  const provisioned = await uids();

  await web.settled(await web.changeApp({ config: { title: "Next" } }));
  expect(await titles()).toEqual(["Next", "Next", "Next"]);
  const changed = await uids();
  for (const [name, uid] of changed) expect(uid).not.toBe(provisioned.get(name));
  expect((await web.group()).status).toMatchObject({ readyReplicas: 3, updatedReplicas: 3, disruptions: { restarts: 3 } });

  // Nothing has this address, so the server cannot listen on it.
  const broken = await web.changeApp({ config: { bind: "203.0.113.1" } });
  const failed = await web.untilApp(({ status }) => status?.plan?.generation === broken && status.plan.outcome === "Failed");
  expect(failed.status?.plan?.tasks[0]?.error).toContain("Cannot assign requested address");
  await web.untilGroup(({ status }) => status?.readyReplicas === 3 && status.phase === "Running");
  expect(await titles()).toEqual(["Next", "Next", "Next"]);
  const reverted = await uids();
  for (const name of ["cache-server-pods-0", "cache-server-pods-1"]) expect(reverted.get(name)).toBe(changed.get(name));

  const components = [{ name: "server", groups: [{ name: "pods", replicas: 1 }] }];
  const scaled = await web.changeApp({ config: { bind: null }, components });
  await web.untilApp(({ status }) => status?.plan?.generation === scaled && status.plan.outcome === "Succeeded");
  expect([...(await uids()).keys()]).toEqual(["cache-server-pods-0"]);
  expect(web.errors).toEqual([]);
});
