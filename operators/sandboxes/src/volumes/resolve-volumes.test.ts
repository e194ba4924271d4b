import { describe, expect, it } from "vitest";
import type { SandboxVolume } from "../api/sandbox-volume.ts";
import { resolveVolumes } from "./resolve-volumes.ts";

const createdTime = "2026-01-01T00:00:00Z";
const ready: SandboxVolume["status"] = { phase: "Ready", assignedPod: "pool-agent-0", createdTime };

function resolve(volumes: Readonly<Record<string, Partial<SandboxVolume> | undefined>>) {
  const references = Object.keys(volumes).map((name) => ({ name, mountPath: `/${name}` }));
  return resolveVolumes({ image: "host", poolRef: "pool", volumes: references }, "default", (name) => {
    const volume = volumes[name];
    if (volume === undefined) return undefined;
    const metadata = { name, uid: `uid-${name}`, ...volume.metadata };
    return {
      apiVersion: "sandbox.fast.io/v1alpha1",
      kind: "SandboxVolume",
      spec: { poolRef: "pool", size: "1Gi" },
      status: ready,
      ...volume,
      metadata,
    };
  });
}

describe("the volumes of a sandbox", () => {
  it("name the agent that has them, even while it is away", () => {
    expect(resolve({})).toEqual({ kind: "ready", agent: undefined, mounts: [] });
    expect(resolve({ one: {}, two: { status: { ...ready, phase: "Away" } } })).toEqual({
      kind: "ready",
      agent: "pool-agent-0",
      mounts: [
        { name: "one", mountPath: "/one", volumeId: "uid-one" },
        { name: "two", mountPath: "/two", volumeId: "uid-two" },
      ],
    });
  });

  it.each([
    ["is missing", undefined, true, "not found; create it: keelson sandbox volume create one"],
    ["belongs to another pool", { spec: { poolRef: "other", size: "1Gi" } }, true, "belongs to pool other, not pool"],
    ["is being deleted", { metadata: { name: "one", deletionTimestamp: createdTime } }, true, "is being deleted"],
    ["is not created yet", { status: { phase: "Pending", assignedPod: "pool-agent-0" } }, false, "is not ready"],
    ["is lost", { status: { ...ready, phase: "Lost", message: "gone" } }, false, "is not ready: gone"],
  ] as const)("are not ready if one %s", (_, volume, isMissing, message) => {
    expect(resolve({ one: volume })).toMatchObject({ kind: "problem", isMissing, message: expect.stringContaining(message) });
  });

  it("cannot be on different agents", () => {
    const elsewhere = { status: { ...ready, assignedPod: "pool-agent-1" } };
    expect(resolve({ one: {}, two: elsewhere })).toMatchObject({
      kind: "problem",
      message: "volumes[1].name: SandboxVolume two is on agent pool-agent-1, the volumes before it on pool-agent-0",
    });
  });
});
