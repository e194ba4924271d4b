import { describe, expect, it } from "vitest";
import { cleanupFinalizer } from "../api/names.ts";
import type { SandboxVolume } from "../api/sandbox-volume.ts";
import type { AgentStatus } from "../protocol/protocol.ts";
import { decideVolume, hasSize, type VolumeObservation } from "./sandbox-volume-decision.ts";

const createdTime = "2026-01-01T00:00:00Z";

function volume(status: SandboxVolume["status"] = {}, isDeleted = false, size: string | number = "1Gi"): SandboxVolume {
  const deletion = isDeleted ? { deletionTimestamp: createdTime } : {};
  const metadata = { name: "data", namespace: "default", uid: "uid", finalizers: [cleanupFinalizer], ...deletion };
  return { apiVersion: "sandbox.fast.io/v1alpha1", kind: "SandboxVolume", metadata, spec: { poolRef: "pool", size }, status };
}

const reporting = (...volumes: string[]): VolumeObservation["agent"] => {
  const status: AgentStatus = {
    agentId: "a",
    nodeName: "n",
    capacity: 1,
    allocated: 0,
    images: [],
    sandboxStatuses: [],
    volumes,
  };
  return { kind: "ready", status };
};

const has = (bytes: number): VolumeObservation["agent"] => {
  const agent = reporting("uid");
  return agent.kind === "ready" ? { ...agent, status: { ...agent.status, volumeSizes: { uid: bytes } } } : agent;
};

const decide = (change: Partial<VolumeObservation>) =>
  decideVolume({
    ...{ volume: volume(), agent: { kind: "none" }, candidate: { name: "a", node: "n" }, users: [], hasPool: true, now: 0 },
    ...change,
  });

const assigned = { assignedPod: "a" };
const created = { ...assigned, createdTime };
const written = (phase: string, message = expect.any(String) as string) => ({ kind: "write", status: { phase, message } });

describe("a volume", () => {
  it("is assigned before it is created, and created only until its agent reports it", () => {
    expect(decide({})).toMatchObject({ kind: "write", status: { phase: "Pending", assignedPod: "a", nodeName: "n" } });
    expect(decide({ candidate: undefined })).toMatchObject(written("Pending", "no agent of pool pool is ready"));
    expect(decide({ volume: volume(assigned), agent: reporting() })).toEqual({ kind: "create", sizeBytes: 2 ** 30 });
    expect(decide({ volume: volume(assigned), agent: reporting("uid") })).toMatchObject({
      kind: "write",
      status: { phase: "Ready", createdTime: "1970-01-01T00:00:00Z", conditions: [{ type: "Ready", status: "True" }] },
    });
    expect(decide({ volume: volume(assigned), agent: { kind: "unreachable" } })).toMatchObject(written("Pending"));
  });

  it("grows on its agent once it was created there, and shows its current size", () => {
    const growing = volume({ ...created, size: "1Gi" }, false, "2Gi");
    expect(decide({ volume: volume(assigned, false, "2Gi"), agent: has(2 ** 30) })).toMatchObject({
      status: { phase: "Ready", size: String(2 ** 30), createdTime: expect.any(String) as string },
    });
    expect(decide({ volume: growing, agent: has(2 ** 30) })).toEqual({ kind: "resize", sizeBytes: 2 ** 31 });
    expect(decide({ volume: growing, agent: has(2 ** 31) })).toMatchObject({ status: { phase: "Ready", size: "2Gi" } });
    expect([hasSize(growing, "2Gi"), hasSize(growing, "1024Mi"), hasSize(volume(created), 1)]).toEqual([false, true, false]);
  });

  it("stays ready with a message if it cannot grow, whatever its agent reports and its status contains", () => {
    const growing = volume({ ...created, size: "1Gi" }, false, "2Gi");
    const unknown = "cannot grow: agent a does not report the size of the volume; its version may be too old";
    // An agent of an earlier version does not report sizes.
    expect(decide({ volume: growing, agent: reporting("uid") })).toMatchObject({
      status: { phase: "Ready", size: "1Gi", message: unknown },
    });
    for (const bytes of ["x", -1, 0, 1.5, Number.NaN, null, {}]) {
      const agent = reporting("uid");
      if (agent.kind === "ready") Object.assign(agent.status, { volumeSizes: { uid: bytes } });
      expect(decide({ volume: growing, agent })).toMatchObject(written("Ready", unknown));
    }
    const damaged = volume({ ...created, size: "x" }, false, "2Gi");
    expect(decide({ volume: damaged, agent: has(2 ** 30) })).toEqual({ kind: "resize", sizeBytes: 2 ** 31 });
    expect(decide({ volume: damaged, agent: has(3) })).toMatchObject({ kind: "resize" });
    expect(hasSize(damaged, "1Gi")).toBe(false);
    expect(decide({ volume: volume({ ...created, size: "1Gi" }, false, "2Ti"), agent: has(2 ** 30) })).toMatchObject({
      status: { phase: "Ready", size: "1Gi", message: 'spec.size: Invalid value: "2Ti": must be 16Mi to 1Ti' },
    });
  });

  it("is away while its agent does not report, and lost if the agent no longer has it", () => {
    expect(decide({ volume: volume(created), agent: { kind: "unreachable" } })).toMatchObject(written("Away"));
    expect(decide({ volume: volume(created), agent: { kind: "deleted" } })).toMatchObject(written("Away"));
    expect(decide({ volume: volume(created), agent: reporting("other") })).toMatchObject(written("Lost"));
    expect(decide({ volume: volume({ ...created, phase: "Away" }), agent: reporting("uid") })).toMatchObject(
      written("Ready", ""),
    );
  });

  it.each(["1Ki", "2Ti", "0"])("fails with the size %s", (size) => {
    expect(decide({ volume: volume({}, false, size) })).toMatchObject(
      written("Failed", `spec.size: Invalid value: "${size}": must be 16Mi to 1Ti`),
    );
  });

  it("is deleted by its agent once no sandbox uses it", () => {
    const deleted = volume(created, true);
    expect(decide({ volume: deleted, agent: reporting("uid"), users: ["one", "two"] })).toMatchObject(
      written("Deleting", "in use by sandboxes one, two"),
    );
    // Also if the agent does not report it: a create may be in flight.
    for (const agent of [reporting("uid"), reporting()]) expect(decide({ volume: deleted, agent })).toEqual({ kind: "delete" });
    expect(decide({ volume: deleted, agent: { kind: "unreachable" } })).toMatchObject(written("Deleting"));
    expect(decide({ volume: deleted, agent: { kind: "deleted" } })).toMatchObject(written("Deleting"));
  });

  it("is removed without its agent if it was never assigned, or if its pool was deleted", () => {
    expect(decide({ volume: volume({}, true) })).toEqual({ kind: "remove-finalizer" });
    expect(decide({ volume: volume(created, true), agent: { kind: "deleted" }, hasPool: false })).toEqual({
      kind: "remove-finalizer",
    });
  });
});
