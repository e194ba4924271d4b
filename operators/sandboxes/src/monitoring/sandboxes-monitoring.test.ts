import type { Cache } from "@keelson/controller";
import { stateMetrics } from "@keelson/operator/monitoring";
import { expect, it } from "vitest";
import { sandboxesMonitoring } from "./sandboxes-monitoring.ts";

const pool = (name: string, status?: object) => ({ metadata: { namespace: "a", name }, status });
const box = (status?: object) => ({
  metadata: { namespace: "a", creationTimestamp: "2030-01-01T00:00:00Z" },
  spec: { poolRef: "p" },
  status,
});
const objects: Readonly<Record<string, readonly object[]>> = {
  Sandbox: [box({ phase: "Running" }), box({ phase: "Running" }), box()],
  SandboxPool: [pool("p", { currentPods: 3, readyPods: 2, busyAgents: 1, warm: { desired: 5, ready: 4 } }), pool("empty")],
};
const cache = { list: ({ kind }: { kind: string }) => objects[kind] } as unknown as Cache;

it("counts sandboxes, agents and warm slots by pool", () => {
  const samples = stateMetrics(sandboxesMonitoring.metrics ?? {}, cache, Date.UTC(2030, 0, 1, 0, 2)).map(
    ({ name, samples }) => [name, samples.map(({ labels, value }) => `${Object.values(labels).join(" ")} ${value}`)],
  );
  expect(Object.fromEntries(samples)).toEqual({
    keelson_sandboxes_sandboxes: ["a p Running 2", "a p Pending 1"],
    keelson_sandboxes_oldest_pending_seconds: ["a p 120"],
    keelson_sandboxes_agents: [
      ...["a p current 3", "a p ready 2", "a p busy 1"],
      ...["a empty current 0", "a empty ready 0", "a empty busy 0"],
    ],
    keelson_sandboxes_warm_slots: ["a p desired 5", "a p ready 4"],
  });
});
