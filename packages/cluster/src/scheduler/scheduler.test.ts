import { Namespace, Node, Pod } from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import { startTestEnvironment } from "@keelson/apiserver/testing";
import { createClient } from "@keelson/client";
import { watched } from "@keelson/client/testing";
import { createManager } from "@keelson/controller";
import { expect, test } from "vitest";
import { createScheduler } from "./scheduler.ts";

test("binds Pods before it reports those that fit no node, whose namespaces take turns", async () => {
  const writes: string[] = [];
  const rules = [{ level: "Metadata", resources: [{ group: "", resources: ["pods/binding", "pods/status"] }] }];
  await using environment = await startTestEnvironment({
    clock: systemClock,
    audit: {
      policy: { apiVersion: "audit.k8s.io/v1", kind: "Policy", omitStages: ["RequestReceived"], rules },
      onEvent: ({ objectRef }) => writes.push(JSON.stringify(objectRef)),
    },
  });
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  const crowd = 40;
  const create = async (namespace: string, name: string, nodeSelector: Record<string, string>): Promise<void> => {
    const spec = { nodeSelector, containers: [{ name: "a", image: "a" }] };
    await client.create(Pod, { metadata: { namespace, name }, spec });
  };
  for (const name of ["crowded", "quiet"]) await client.create(Namespace, { metadata: { name } });
  const status = { allocatable: { cpu: "2", memory: "4Gi", pods: "10" }, conditions: [{ type: "Ready", status: "True" }] };
  await client.create(Node, { metadata: { name: "n1" }, status });
  for (let index = 0; index < crowd; index++) await create("crowded", `p${index}`, { no: "where" });
  await create("quiet", "lost", { no: "where" });
  await create("quiet", "placed", {});

  const manager = createManager({ client, controllers: [createScheduler()], name: "test" });
  await manager.start();
  for (let index = 0; index < crowd; index++) {
    await watched(client, Pod, `p${index}`, (pod) => (pod?.status?.conditions ?? []).length > 0, "crowded");
  }
  await manager.stop();
  expect(writes[0]).toContain('"placed"');
  const lost = writes.findIndex((write) => write.includes('"lost"'));
  expect(lost).toBeGreaterThan(0);
  // Up to four reports run at the same time, each of which is written once.
  expect(lost).toBeLessThanOrEqual(8);
});
