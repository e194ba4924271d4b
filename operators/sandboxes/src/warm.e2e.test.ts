import type { DeepReadonly } from "@keelson/api-machinery";
import { watched } from "@keelson/client/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { SandboxPool } from "./api/sandbox-pool.ts";
import { type LocalSandboxes, startLocalSandboxes } from "./testing/local-sandboxes.ts";

const isRoot = process.getuid?.() === 0;
let local: LocalSandboxes;

beforeAll(async () => {
  local = await startLocalSandboxes();
});

afterAll(() => local.stop());

describe.runIf(isRoot)("a pool with warm slots", () => {
  it("starts sandboxes in them, shows how many are ready, and starts others cold", async () => {
    const { client, fastPath } = local;
    await local.pool({ poolMin: 1, poolMax: 1 }, 8, { warm: { shells: 1, perImage: 1 } });
    const isFull = (pool: DeepReadonly<SandboxPool> | undefined): boolean =>
      pool?.status?.warm?.desired === 2 && pool.status.warm.ready === 2;
    await watched(client, SandboxPool, "pool", isFull);
    const request = { image: "host", poolRef: "pool", command: ["/bin/sh", "-c", "echo $MARK; exec sleep 600"] };
    const created = await fastPath.createSandbox({ ...request, name: "first", envs: { MARK: "mine" } });
    expect(created.timings.warm).toBe(created.timings.start);
    await local.phase("first", "Running");
    await watched(client, SandboxPool, "pool", isFull);
    // Another disk limit than that of the slots.
    const cold = await fastPath.createSandbox({ ...request, name: "cold", memory: "1Gi" });
    expect(cold.timings.start).toBeDefined();
    expect(cold.timings.warm).toBeUndefined();
    // Its object is written after the response; what is deleted after the test must exist.
    await local.phase("cold", "Running");
  });
});
