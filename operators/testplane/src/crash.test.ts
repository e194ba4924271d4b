import type { ApiRequest, ApiResponse, Transport } from "@keelson/api-machinery";
import { startTestEnvironment } from "@keelson/apiserver/testing";
import { createClient } from "@keelson/client";
import { startOperator } from "@keelson/controller";
import { expect, it } from "vitest";
import { IntegrationTest } from "./api/integration-test.ts";
import { testplane } from "./operator.ts";
import { watched } from "./testing/watched.ts";

/** A way to the server that breaks for good at its n-th write: before the server has it, or before the answer is back. */
function dying(transport: Transport, writes: number, when: "before" | "after"): { transport: Transport; died: Promise<void> } {
  let left = writes;
  let isDead = false;
  let die: () => void = () => {};
  const died = new Promise<void>((resolve) => {
    die = () => {
      isDead = true;
      resolve();
    };
  });
  const request = async (what: ApiRequest): Promise<ApiResponse> => {
    // Events are told beside the work; a stop would wait for those that cannot be.
    if (what.path.includes("/events")) return transport.request(what);
    const isWrite = what.method !== "GET";
    if (isWrite && !isDead && left-- === 0) {
      if (when === "before") die();
      else await transport.request(what).finally(die);
    }
    if (isDead) throw new Error("the connection is broken");
    return transport.request(what);
  };
  return { transport: { ...transport, request, watch: (what) => transport.watch(what), close: () => transport.close() }, died };
}

const configMap = (name: string) => ({ apiVersion: "v1", kind: "ConfigMap", metadata: { name }, data: { state: "on" } });

it.each(["before", "after"] as const)(
  "comes to the same end when it dies %s any of its writes",
  async (when) => {
    let writes = 0;
    for (let isReached = true; isReached; writes++) {
      await using environment = await startTestEnvironment({ crds: testplane.resources.map(({ crd }) => crd) });
      const client = createClient({ transport: environment.transport(), fieldManager: "test" });
      const broken = dying(environment.transport(), writes, when);
      const first = await startOperator({
        operator: testplane,
        client: createClient({ transport: broken.transport, fieldManager: "testplane" }),
        dataDir: "/nonexistent",
        gracefulShutdownTimeoutMs: 0,
      });
      await client.create(IntegrationTest, {
        metadata: { name: "crash", namespace: "default" },
        spec: {
          repeat: { count: 2 },
          steps: [
            {
              name: "make",
              resource: { manifest: configMap("made") },
              expectations: { allOf: [{ function: "ResourceExists" }] },
            },
            {
              name: "remove",
              resource: { action: "Delete", manifest: configMap("made") },
              expectations: { allOf: [{ function: "ResourceNotExists" }] },
            },
          ],
        },
      });
      const done = watched(client, IntegrationTest, "crash", (test) => test?.status?.completionTime !== undefined);
      isReached = await Promise.race([broken.died.then(() => true), done.then(() => false)]);
      await first.stop();
      const second = await startOperator({ operator: testplane, client, dataDir: "/nonexistent" });
      expect((await done)?.status, `write ${writes}`).toMatchObject({
        phase: "Succeeded",
        completedRounds: 2,
        failedRounds: 0,
        roundHistory: [
          { round: 1, outcome: "Succeeded" },
          { round: 2, outcome: "Succeeded" },
        ],
      });
      await second.stop();
    }
    expect(writes).toBeGreaterThan(8);
  },
  30_000,
);
