import { createPrometheusMetrics } from "@keelson/controller/metrics";
import { expect, it } from "vitest";
import { alertGroupOf, dashboardOf } from "./dashboard.ts";

const operator = {
  name: "robots",
  monitoring: {
    panels: [{ title: "Robots", queries: [{ expr: "sum(robots)", legend: "robots" }] }],
    alerts: [{ alert: "NoRobots", expr: "robots == 0", severity: "warning" as const, summary: "No robots" }],
  },
};

it("starts with the operator's own rules and panels", () => {
  const { name, rules } = alertGroupOf(operator);
  expect([name, rules[0]]).toEqual([
    "keelson-robots",
    { alert: "NoRobots", expr: "robots == 0", labels: { severity: "warning" }, annotations: { summary: "No robots" } },
  ]);
  expect(rules.map(({ alert }) => alert)).toContain("RobotsOperatorHasNoLeader");
  const { panels } = dashboardOf(operator) as { panels: { title: string; gridPos: { x: number; y: number } }[] };
  expect(panels[0]).toMatchObject({ title: "Robots", gridPos: { x: 0, y: 0 } });
  const positions = panels.map(({ gridPos: { x, y } }) => `${x},${y}`);
  expect(new Set(positions).size).toBe(panels.length);
});

it("uses only metrics that the runtime exports", async () => {
  const { registry } = await createPrometheusMetrics({ processFigures: true });
  const exported = new Set(registry.getMetricsAsArray().map(({ name }) => name));
  const text = JSON.stringify([alertGroupOf({ name: "robots" }), dashboardOf({ name: "robots" })]);
  const prefix = /\b(?:controller_runtime|workqueue|rest_client|leader_election|keelson|nodejs|process)_[a-z0-9_]+/g;
  const used = new Set([...text.matchAll(prefix)].map(([name]) => name.replace(/_bucket$/, "")));
  expect(used.size).toBeGreaterThan(10);
  expect([...used].filter((name) => !exported.has(name))).toEqual([]);
  registry.clear();
});
