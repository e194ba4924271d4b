import { expect, test } from "vitest";
import type { App } from "../api/app.ts";
import type { Group } from "../api/group.ts";
import { appTopology } from "./app-topology.ts";

const app = {
  metadata: { name: "cache", namespace: "team" },
  spec: { plugin: { name: "redis" } },
  status: { phase: "Degraded", message: "2 of 3 Pods are ready", version: "7.0.15" },
} as unknown as App;
const group = {
  metadata: { name: "cache-redis-nodes" },
  spec: { componentRef: { name: "cache-redis" } },
  status: {
    primary: { pod: "n-0", epoch: 3 },
    failover: { from: "n-2", to: "n-0", epoch: 3 },
    pods: [
      { name: "n-0", role: "primary", ready: true, version: "7.0.15" },
      { name: "n-1", role: "replica", ready: true, version: "7.0.15" },
      { name: "n-2", role: "unknown", ready: false },
    ],
  },
} as unknown as Group;

test("describes the Pods of an App with the replication lag that their agents report", () => {
  const figures = new Map([
    ["n-0", { role: "primary", offset: 1_000 }],
    ["n-1", { role: "replica", offset: 940 }],
  ]);
  const part = { component: "cache-redis", group: "cache-redis-nodes" };
  expect(appTopology(app, [group], figures)).toEqual({
    name: "cache",
    namespace: "team",
    phase: "Degraded",
    message: "2 of 3 Pods are ready",
    plugin: "redis",
    version: "7.0.15",
    transitions: ["failover from n-2 to n-0"],
    pods: [
      { name: "n-0", ...part, role: "primary", ready: true, version: "7.0.15" },
      { name: "n-1", ...part, role: "replica", ready: true, version: "7.0.15", lagBytes: 60 },
      { name: "n-2", ...part, role: "unknown", ready: false },
    ],
  });
});

test("omits the lag if the primary does not report its offset", () => {
  const { pods } = appTopology(app, [group], new Map([["n-1", { role: "replica", offset: 940 }]]));
  expect(pods[1]).not.toHaveProperty("lagBytes");
});
