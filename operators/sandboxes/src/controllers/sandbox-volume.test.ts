import { createVirtualClock } from "@keelson/api-machinery/testing";
import type { ReconcileContext } from "@keelson/controller";
import type { OperatorServices } from "@keelson/operator";
import { expect, it } from "vitest";
import { cleanupFinalizer } from "../api/names.ts";
import type { SandboxVolume } from "../api/sandbox-volume.ts";
import { AgentError } from "../protocol/agent-error.ts";
import { createVolumeController } from "./sandbox-volume.ts";

const request = { namespace: "default", name: "data" };

/** A volume of 1Gi that is to have 2Gi, and the agent that has it. */
function growing() {
  const clock = createVirtualClock();
  const state = { asked: 0, error: new AgentError("Rejected", "") };
  let volume: SandboxVolume | undefined = {
    apiVersion: "sandbox.fast.io/v1alpha1",
    kind: "SandboxVolume",
    metadata: { ...request, uid: "uid", finalizers: [cleanupFinalizer] },
    spec: { poolRef: "pool", size: "2Gi" },
    status: { phase: "Ready", assignedPod: "a", createdTime: "2026-01-01T00:00:00Z", size: "1Gi" },
  };
  const changeVolume = (): Promise<void> => {
    state.asked += 1;
    return Promise.reject(state.error);
  };
  const runtime = {
    agentStatus: () => ({ volumes: ["uid"], volumeSizes: { uid: 2 ** 30 } }),
    agentClient: () => ({ changeVolume }),
    registry: { agents: () => [] },
  };
  const applyStatus = (_: unknown, applied: Pick<SandboxVolume, "status">): Promise<void> => {
    if (volume !== undefined) volume = { ...volume, ...(applied.status && { status: applied.status }) };
    return Promise.resolve();
  };
  const cache = {
    get: (type: { readonly kind: string }) => (type.kind === "SandboxVolume" ? volume : undefined),
    list: () => [],
  };
  const context = { clock, cache, client: { applyStatus }, events: { event: () => {} } } as unknown as ReconcileContext;
  const { reconcile } = createVolumeController({ get: () => runtime } as unknown as OperatorServices);
  return {
    ...{ state, clock },
    reconcile: () => reconcile(request, context),
    message: () => volume?.status?.message,
    grow: (size: string) => (volume = volume && { ...volume, spec: { ...volume.spec, size } }),
  };
}

it("asks an agent that refuses to grow a volume every 15 s, whatever else changes, and immediately for another size", async () => {
  const { state, clock, reconcile, message, grow } = growing();
  state.error = new AgentError("Rejected", "1 MiB available");
  expect(await reconcile()).toEqual({ requeueAfterMs: 15_000 });
  expect(message()).toBe("1 MiB available");
  // The status that was written causes the next reconcile, and would cause another if the message had changed.
  state.error = new AgentError("Rejected", "2 MiB available");
  await clock.advance(5_000);
  expect(await reconcile()).toEqual({ requeueAfterMs: 10_000 });
  expect(state.asked).toBe(1);
  await clock.advance(10_000);
  expect(await reconcile()).toEqual({ requeueAfterMs: 15_000 });
  expect([state.asked, message()]).toEqual([2, "2 MiB available"]);
  grow("3Gi");
  await reconcile();
  expect(state.asked).toBe(3);
});

it("does not report that a volume cannot grow if its agent does not respond in time", async () => {
  const { state, reconcile, message } = growing();
  state.error = new AgentError("Unreachable", "did not respond within 10000 ms");
  expect(await reconcile()).toEqual({ requeueAfterMs: 15_000 });
  expect(message()).toBeUndefined();
});
