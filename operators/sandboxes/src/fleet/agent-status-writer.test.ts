import { createDeferred } from "@keelson/api-machinery/deferred";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import type { Client } from "@keelson/client";
import { type Cache, silentLogger } from "@keelson/controller";
import { beforeEach, describe, expect, it } from "vitest";
import type { Sandbox } from "../api/sandbox.ts";
import type { AgentPhase, AgentStatus } from "../protocol/protocol.ts";
import { AgentStatusWriter } from "./agent-status-writer.ts";

const sandboxID = "0123456789abcdef".repeat(2);

/** What the API has, and what the cache has of it. */
let stored: Sandbox;
let cached: Sandbox | undefined;
let phase: AgentPhase;
let written: string[];
let gate: ReturnType<typeof createDeferred<void>> | undefined;
/** Resolves when a write has begun. */
let begun: ReturnType<typeof createDeferred<void>>;
let writer: AgentStatusWriter;

const sandbox = (runtime?: NonNullable<Sandbox["status"]>["runtime"]): Sandbox => ({
  apiVersion: "sandbox.fast.io/v1alpha1",
  kind: "Sandbox",
  metadata: { namespace: "default", name: "one", uid: "uid", resourceVersion: "9" },
  spec: { poolRef: "pool", image: "host" },
  status: { phase: "Running", assignedPod: "agent", sandboxID, ...(runtime && { runtime }) },
});

const status = (): AgentStatus => ({
  ...{ agentId: "agent", nodeName: "", capacity: 1, allocated: 1, images: [] },
  sandboxStatuses: [
    {
      sandboxId: sandboxID,
      claimUid: "uid",
      claimName: "one",
      namespace: "default",
      phase,
      message: "",
      createdAt: 1,
      ports: [],
    },
  ],
});

const client = {
  async applyStatus(_: unknown, applied: Sandbox): Promise<Sandbox> {
    begun.resolve();
    await gate?.promise;
    const version = String(Number(stored.metadata.resourceVersion) + 1);
    const next = { ...stored.status, phase: "Running", runtime: applied.status?.runtime } as Sandbox["status"] & object;
    stored = { ...stored, metadata: { ...stored.metadata, resourceVersion: version }, status: next };
    written.push(applied.status?.runtime?.phase ?? "");
    return stored;
  },
};

beforeEach(() => {
  stored = sandbox();
  cached = stored;
  phase = "running";
  written = [];
  gate = undefined;
  begun = createDeferred();
  writer = new AgentStatusWriter({
    client: client as unknown as Client,
    cache: { get: () => cached } as unknown as Cache,
    clock: createVirtualClock(),
    log: silentLogger,
    agents: () => [],
    statusOf: status,
  });
});

const update = (): void => {
  if (cached !== undefined) writer.updateSandbox(cached);
};

describe("a writer of agents' reports", () => {
  it("writes a report once, however often the sandbox changes before the cache has it", async () => {
    for (let count = 0; count < 5; count += 1) update();
    await writer.settle();
    // The cache is older than the write.
    for (let count = 0; count < 5; count += 1) update();
    await writer.settle();
    cached = stored;
    update();
    await writer.settle();
    expect(written).toEqual(["running"]);
  });

  it("writes the last of several reports that came during a write", async () => {
    gate = createDeferred();
    update();
    await begun.promise;
    for (const next of ["terminating", "stopped", "failed"] as const) {
      phase = next;
      update();
    }
    gate.resolve();
    await writer.settle();
    expect(written).toEqual(["running", "failed"]);
  });

  it("repairs what another client has changed", async () => {
    update();
    await writer.settle();
    stored = { ...sandbox(), metadata: { ...stored.metadata, resourceVersion: "20" } };
    cached = stored;
    update();
    await writer.settle();
    expect(written).toEqual(["running", "running"]);
  });

  it("writes nothing about a sandbox that is being deleted, or was deleted in the meantime", async () => {
    cached = { ...stored, metadata: { ...stored.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" } };
    update();
    cached = stored;
    update();
    cached = undefined;
    await writer.settle();
    expect(written).toEqual([]);
  });
});
