import { createVirtualClock } from "@keelson/api-machinery/testing";
import type { MetricFamily } from "@keelson/controller/metrics";
import { describe, expect, it } from "vitest";
import { programMetrics } from "./program-metrics.ts";
import { ProgramMetricsReader } from "./program-metrics-reader.ts";

const podLabels = (pod: string) => ({ namespace: "default", app: "cache", component: "redis", group: "nodes", pod });
const family = (name: string, ...samples: MetricFamily["samples"]): MetricFamily => ({
  name,
  help: "",
  type: "gauge",
  samples,
});

describe("metrics of programs", () => {
  it("are merged by name and have the labels of their Pods, which the program cannot forge", () => {
    const labels = { pod: "other", job: "keelson-robots", db: "db0" };
    const merged = programMetrics(
      ["a", "b"].map((pod) => ({ pod: podLabels(pod), families: [family("redis_db_keys", { labels, value: 1 })] })),
    );
    expect(merged).toEqual([
      family(
        "redis_db_keys",
        { labels: { ...podLabels("a"), exported_pod: "other", exported_job: "keelson-robots", db: "db0" }, value: 1 },
        { labels: { ...podLabels("b"), exported_pod: "other", exported_job: "keelson-robots", db: "db0" }, value: 1 },
      ),
    ]);
  });

  it("are left out if they are malformed, named like the operator's own, duplicate or too many", () => {
    const one = { labels: {}, value: 1 };
    const many = Array.from({ length: 6_000 }, (_, index) => ({ labels: { index: String(index) }, value: 1 }));
    const merged = programMetrics([
      {
        pod: podLabels("a"),
        families: [
          family("keelson_middleware_pod_up", one),
          family("process_cpu_seconds_total", one),
          family('bad{x="1"}', one),
          family("twice", one, one),
          family("twice", one),
          family("labels", { labels: { "a-b": "" }, value: 1 }, { labels: { long: "x".repeat(257) }, value: 1 }),
          family("many", ...many),
        ],
      },
      { pod: podLabels("b"), families: [{ ...family("twice", one), type: "counter" }] },
    ]);
    expect(merged.map(({ name, samples }) => [name, samples.length])).toEqual([
      ["twice", 2],
      ["labels", 0],
      ["many", 4_999],
      ["keelson_middleware_metrics_truncated", 1],
    ]);
  });

  it("are all kept of small families that follow large ones", () => {
    const samples = (count: number) =>
      Array.from({ length: count }, (_, index) => ({ labels: { index: String(index) }, value: 1 }));
    const merged = programMetrics([
      {
        pod: podLabels("a"),
        families: [family("x", ...samples(4_000)), family("y", ...samples(3_000)), family("z", ...samples(100))],
      },
    ]);
    expect(merged.map((each) => [each.name, each.samples.length])).toEqual([
      ["x", 2_450],
      ["y", 2_450],
      ["z", 100],
      ["keelson_middleware_metrics_truncated", 1],
    ]);
    expect(merged.at(-1)?.samples).toEqual([{ labels: podLabels("a"), value: 1 }]);
  });

  it("are duplicates if their labels differ only in empty ones, or after the labels of the Pod were added", () => {
    const labelSets = [{ db: "" }, {}, { pod: "x" }, { exported_pod: "x" }];
    const samples = labelSets.map((labels) => ({ labels: labels as Readonly<Record<string, string>>, value: 1 }));
    const [merged] = programMetrics([{ pod: podLabels("a"), families: [family("keys", ...samples)] }]);
    expect(merged?.samples).toHaveLength(2);
  });

  it("are read once per interval, again from a Pod with another address, and not kept if the Pod does not respond", async () => {
    const clock = createVirtualClock();
    let reads = 0;
    let isAnswering = true;
    const reader = new ProgramMetricsReader(
      { metrics: async () => (isAnswering ? [family("reads", { labels: {}, value: ++reads })] : undefined) },
      clock,
    );
    const read = async (ip = "10.0.0.1") =>
      (await reader.read([{ labels: podLabels("a"), ip, access: { token: "" }, intervalMs: 10_000 }]))[0]?.samples[0]?.value;
    expect([await read(), await read()]).toEqual([1, 1]);
    expect(await read("10.0.0.2")).toBe(2);
    await clock.advance(10_000);
    expect(await read("10.0.0.2")).toBe(3);
    await clock.advance(10_000);
    isAnswering = false;
    expect(await read("10.0.0.2")).toBeUndefined();
    isAnswering = true;
    expect(await read("10.0.0.2")).toBe(4);
  });
});
