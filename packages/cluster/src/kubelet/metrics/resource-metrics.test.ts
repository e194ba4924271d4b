import { createVirtualClock } from "@keelson/api-machinery/testing";
import type { Program } from "@keelson/execution";
import { expect, test } from "vitest";
import type { PodView } from "../pod/pod-view.ts";
import { createNodeUsage } from "./node-usage.ts";
import { ResourceMetrics } from "./resource-metrics.ts";

const pod = (name: string): PodView => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name, namespace: "team", uid: name, labels: { app: name } },
  spec: { containers: [] },
});
const program = (cpuMillis: number, memoryBytes: number): Program =>
  ({ stats: () => Promise.resolve({ cpuMillis, memoryBytes, pids: 1 }) }) as Partial<Program> as Program;

test("shows the usage of the node and of each container, sampled every 15 s", async () => {
  const clock = createVirtualClock();
  const metrics = new ResourceMetrics({
    nodeName: "here",
    clock,
    nodeUsage: () => ({ cpuMillis: 1_500, cpuSeconds: 7, memoryBytes: 2 ** 20 }),
    containers: () => [
      { pod: pod("a"), name: "main", program: program(250, 4_096) },
      { pod: pod("a"), name: "side", program: program(1, 1_024) },
      {
        pod: pod("b"),
        name: "main",
        program: { stats: () => Promise.reject(new Error("gone")) } as Partial<Program> as Program,
      },
    ],
  });
  expect(metrics.objects).toEqual({ nodes: [], pods: [] });
  await clock.advance(15_000);
  await expect
    .poll(() => metrics.objects.nodes)
    .toMatchObject([
      { kind: "NodeMetrics", metadata: { name: "here" }, window: "15s", usage: { cpu: "1500m", memory: "1024Ki" } },
    ]);
  expect(metrics.objects.pods).toMatchObject([
    {
      kind: "PodMetrics",
      metadata: { name: "a", namespace: "team", labels: { app: "a" } },
      containers: [
        { name: "main", usage: { cpu: "250m", memory: "4Ki" } },
        { name: "side", usage: { cpu: "1m", memory: "1Ki" } },
      ],
    },
  ]);
  metrics.stop();
});

test("counts the CPU time of containers for metrics-server, from zero when a container restarts", async () => {
  const clock = createVirtualClock(Date.UTC(2030, 0, 1));
  let main = program(500, 4_096);
  const metrics = new ResourceMetrics({
    ...{ nodeName: "here", clock, nodeUsage: () => ({ cpuMillis: 1, cpuSeconds: 7.5, memoryBytes: 64 }) },
    containers: () => [
      { pod: pod("a"), name: "main", program: main },
      { pod: pod("a"), name: "side", program: program(100, 1_024) },
    ],
  });
  const values = (name: string) =>
    metrics.text.split("\n").flatMap((line) => (line.startsWith(name) ? [line.slice(name.length)] : []));
  expect(values("resource_scrape_error")).toEqual([" 1"]);
  expect(values("node_cpu")).toEqual([]);
  await clock.advance(15_000);
  await expect.poll(() => values("resource_scrape_error")).toEqual([" 0"]);
  await clock.advance(15_000);
  const labels = '{container="main",namespace="team",pod="a"}';
  await expect.poll(() => values(`container_cpu_usage_seconds_total${labels}`)).toEqual([` 15 ${clock.now()}`]);
  expect(values(`container_memory_working_set_bytes${labels}`)).toEqual([` 4096 ${clock.now()}`]);
  expect(values(`container_start_time_seconds${labels}`)).toEqual([` ${Date.UTC(2030, 0, 1) / 1_000 + 15} ${clock.now()}`]);
  expect(values('pod_memory_working_set_bytes{namespace="team",pod="a"}')).toEqual([` 5120 ${clock.now()}`]);
  expect(values("node_cpu_usage_seconds_total")).toEqual([` 7.5 ${clock.now()}`]);
  main = program(200, 4_096);
  await clock.advance(15_000);
  await expect.poll(() => values(`container_cpu_usage_seconds_total${labels}`)).toEqual([` 3 ${clock.now()}`]);
  metrics.stop();
});

test("measures this machine", () => {
  const { cpuMillis, memoryBytes } = createNodeUsage()();
  expect(cpuMillis).toBeGreaterThanOrEqual(0);
  expect(memoryBytes).toBeGreaterThan(2 ** 20);
});
