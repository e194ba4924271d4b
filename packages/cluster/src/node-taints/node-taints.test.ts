import { Node } from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import { startTestEnvironment } from "@keelson/apiserver/testing";
import { createClient } from "@keelson/client";
import { createManager, silentLogger } from "@keelson/controller";
import { expect, onTestFinished, test } from "vitest";
import { nodeTaintController } from "./node-taints.ts";

test("a node has the taints of its conditions as long as they are true, and keeps its other taints", async () => {
  const environment = await startTestEnvironment();
  onTestFinished(() => environment.stop());
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  const own = { key: "dedicated", value: "a", effect: "NoSchedule" } as const;
  const evicting = { key: "node.kubernetes.io/disk-pressure", effect: "NoExecute" } as const;
  await client.create(Node, { metadata: { name: "n" }, spec: { taints: [own, evicting] } });
  const manager = createManager({
    ...{ name: "test", client, clock: systemClock, logger: silentLogger, controllers: [nodeTaintController] },
  });
  await manager.start();
  onTestFinished(() => manager.stop());
  const set = (type: string, status: string) =>
    client.patch(
      Node,
      { name: "n" },
      { type: "strategic", body: { status: { conditions: [{ type, status }] } } },
      { subresource: "status" },
    );
  const taints = async (): Promise<string[]> =>
    ((await client.get(Node, { name: "n" })).spec?.taints ?? []).map(({ key, effect }) => `${key}:${effect}`);
  const others = ["dedicated:NoSchedule", "node.kubernetes.io/disk-pressure:NoExecute"];
  await set("DiskPressure", "True");
  await expect.poll(taints).toEqual([...others, "node.kubernetes.io/disk-pressure:NoSchedule"]);
  await set("PIDPressure", "True");
  await set("DiskPressure", "Unknown");
  await expect.poll(taints).toEqual([...others, "node.kubernetes.io/pid-pressure:NoSchedule"]);
  await set("PIDPressure", "False");
  await expect.poll(taints).toEqual(others);
});
