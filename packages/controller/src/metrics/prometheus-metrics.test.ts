import { statusError } from "@keelson/api-machinery";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import type { ApiResponse } from "@keelson/api-machinery/transport";
import { createClient, observeRequests } from "@keelson/client";
import { describe, expect, test } from "vitest";
import { createManager } from "../manager/create-manager.ts";
import { createPrometheusMetrics } from "./prometheus-metrics.ts";
import { readOf } from "../cache/cache.ts";
import { FakeApiServer } from "../testing/fake-api-server.ts";
import { robotType } from "../testing/kinds.ts";

describe("prometheus metrics", () => {
  test("exposes every series of a controller with 0 from the start, under controller-runtime's names", async () => {
    const metrics = await createPrometheusMetrics();
    metrics.controller("robots", 3);
    const { text, contentType } = await metrics.scrape();
    expect(contentType).toMatch(/^text\/plain/);
    for (const line of [
      'controller_runtime_reconcile_total{controller="robots",result="success"} 0',
      'controller_runtime_reconcile_total{controller="robots",result="requeue_after"} 0',
      'controller_runtime_reconcile_errors_total{controller="robots"} 0',
      'controller_runtime_terminal_reconcile_errors_total{controller="robots"} 0',
      'controller_runtime_reconcile_panics_total{controller="robots"} 0',
      'controller_runtime_reconcile_timeouts_total{controller="robots"} 0',
      'controller_runtime_max_concurrent_reconciles{controller="robots"} 3',
      'controller_runtime_active_workers{controller="robots"} 0',
      'workqueue_depth{name="robots",controller="robots",priority="0"} 0',
      'workqueue_adds_total{name="robots",controller="robots"} 0',
      'workqueue_retries_total{name="robots",controller="robots"} 0',
    ]) {
      expect(text).toContain(`${line}\n`);
    }
    expect(text.match(/^controller_runtime_reconcile_time_seconds_bucket/gm)?.length).toBe(41);
    expect(text.match(/^workqueue_queue_duration_seconds_bucket/gm)?.length).toBe(13);
  });

  test("a recreated controller continues its series, with any name", async () => {
    const metrics = await createPrometheusMetrics();
    const name = 'a "b"\\c\nd';
    for (const count of [1, 2]) metrics.controller(name, count).reconciled("success", 1);
    const { text } = await metrics.scrape();
    const series = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
    const names = series.map((line) => line.slice(0, line.lastIndexOf(" ")));
    expect(new Set(names).size).toBe(names.length);
    const label = '{controller="a \\"b\\"\\\\c\\nd"}';
    expect(series).toContain(`controller_runtime_reconcile_time_seconds_count${label} 2`);
    expect(series).toContain(`controller_runtime_max_concurrent_reconciles${label} 2`);
  });

  test("does not report or keep the cache of a stopped manager", async () => {
    const metrics = await createPrometheusMetrics();
    const clock = createVirtualClock();
    const client = createClient({ transport: new FakeApiServer(), fieldManager: "test", clock });
    const manager = createManager({ client, clock, name: "test", controllers: [], reads: [readOf(robotType)], metrics });
    await manager.start();
    expect((await metrics.scrape()).text).toContain('keelson_cache_objects{kind="robots.v1.example.org"} 0');
    await manager.stop();
    expect((await metrics.scrape()).text).not.toContain("robots.v1.example.org");
  });

  test("counts at most 25 priorities separately", async () => {
    const metrics = await createPrometheusMetrics();
    const controller = metrics.controller("robots", 1);
    for (let priority = 0; priority < 100; priority++) controller.depthChanged(priority, 1);
    const { text } = await metrics.scrape();
    expect(text.match(/^workqueue_depth/gm)?.length).toBe(26);
    expect(text).toContain('priority="exceeded_cardinality_limit"} 75\n');
  });

  test("counts durations in the buckets whose bound they do not exceed, and sums them", async () => {
    const metrics = await createPrometheusMetrics();
    const controller = metrics.controller("robots", 1);
    for (const ms of [0, 5, 6, 60_000, 90_000]) controller.reconciled("success", ms);
    controller.reconciled("error", 0);
    const { text } = await metrics.scrape();
    const bucket = (le: string): string => `controller_runtime_reconcile_time_seconds_bucket{le="${le}",controller="robots"}`;
    for (const line of [
      `${bucket("0.005")} 3`,
      `${bucket("0.01")} 4`,
      `${bucket("50")} 4`,
      `${bucket("60")} 5`,
      `${bucket("+Inf")} 6`,
      'controller_runtime_reconcile_time_seconds_sum{controller="robots"} 150.011',
      'controller_runtime_reconcile_time_seconds_count{controller="robots"} 6',
      'controller_runtime_reconcile_total{controller="robots",result="success"} 5',
      'controller_runtime_reconcile_errors_total{controller="robots"} 1',
    ]) {
      expect(text).toContain(`${line}\n`);
    }
    const json = await metrics.registry.getSingleMetric("controller_runtime_reconcile_time_seconds")?.get();
    expect(json?.values.at(-1)).toMatchObject({ labels: { controller: "robots" }, value: 6 });
    // A second scrape counts nothing twice.
    expect((await metrics.scrape()).text).toBe(text);
  });

  test("computes the duration of running work on collection", async () => {
    const metrics = await createPrometheusMetrics();
    metrics.controller("robots", 1).watchInProgress(() => [1500, 500]);
    const { text } = await metrics.scrape();
    expect(text).toContain('workqueue_unfinished_work_seconds{name="robots",controller="robots"} 2\n');
    expect(text).toContain('workqueue_longest_running_processor_seconds{name="robots",controller="robots"} 1.5\n');
  });
});

test("counts requests by code and method, including refused watches and those without a response", async () => {
  const metrics = await createPrometheusMetrics({ processFigures: true });
  const api = new FakeApiServer();
  const client = createClient({ transport: metrics.measured(api, "api:6443"), fieldManager: "test" });
  await client.list(robotType);
  await client.list(robotType);
  await expect(client.get(robotType, { namespace: "a", name: "none" })).rejects.toThrow("not found");
  api.intercept = (_, isWatch) => {
    if (!isWatch) throw new Error("no answer");
    return { status: 403, headers: {}, body: statusError("Forbidden", "no").status };
  };
  await expect(client.watch(robotType)).rejects.toThrow("no");
  await expect(client.list(robotType)).rejects.toThrow("no answer");
  const { text } = await metrics.scrape();
  for (const [code, count] of [
    ["200", 2],
    ["404", 1],
    ["403", 1],
    ["<error>", 1],
  ] as const) {
    expect(text).toContain(`rest_client_requests_total{code="${code}",method="GET",host="api:6443"} ${count}\n`);
  }
  expect(text).toContain('rest_client_request_duration_seconds_count{verb="GET",host="api:6443"} 5\n');
  expect(text).toMatch(/^nodejs_eventloop_lag_seconds \d/m);
});

test("counts sizes of requests and responses, and retries by the previous response", async () => {
  const metrics = await createPrometheusMetrics();
  const clock = createVirtualClock();
  const api = new FakeApiServer();
  const wire = { sentBytes: 300, receivedBytes: 5_000, repeats: 0 };
  const answers: ApiResponse[] = [
    { status: 429, headers: { "retry-after": "1" }, body: {}, wire },
    { status: 200, headers: {}, body: {}, wire: { ...wire, repeats: 1 } },
  ];
  api.intercept = () => answers.shift();
  const client = createClient({ transport: metrics.measured(api, "api"), fieldManager: "test", clock });
  const got = client.get(robotType, { namespace: "a", name: "r" });
  await clock.advance(1_000);
  await got;
  const { text } = await metrics.scrape();
  for (const code of ["429", "<error>"]) {
    expect(text).toContain(`rest_client_request_retries_total{code="${code}",verb="GET",host="api"} 1\n`);
  }
  expect(text).toContain('rest_client_request_size_bytes_bucket{le="512",verb="GET",host="api"} 2\n');
  expect(text).toContain('rest_client_request_size_bytes_sum{verb="GET",host="api"} 600\n');
  expect(text).toContain('rest_client_response_size_bytes_bucket{le="4096",verb="GET",host="api"} 0\n');
  expect(text).toContain('rest_client_response_size_bytes_bucket{le="16384",verb="GET",host="api"} 2\n');
});

test("a listener that throws does not affect the response", async () => {
  const api = new FakeApiServer();
  const broken = observeRequests(api, createVirtualClock(), () => {
    throw new Error("no figures for you");
  });
  const client = createClient({ transport: broken, fieldManager: "test" });
  expect((await client.list(robotType)).items).toEqual([]);
  await expect(client.get(robotType, { namespace: "a", name: "none" })).rejects.toThrow("not found");
});

test("passes streams through, counted, if the transport has them", async () => {
  const metrics = await createPrometheusMetrics();
  const api = new FakeApiServer();
  expect(metrics.measured(api, "api").stream).toBeUndefined();
  const bytes = { async *[Symbol.asyncIterator]() {}, close: () => {} };
  const request = { method: "GET", path: "/log" } as const;
  const streaming = { request: () => fail(), watch: () => fail(), close: async () => {}, stream: async () => bytes };
  expect(await metrics.measured(streaming, "api").stream?.(request)).toBe(bytes);
  const { text } = await metrics.scrape();
  expect(text).toContain('rest_client_requests_total{code="200",method="GET",host="api"} 1\n');
});

test("adds up objects of several caches of a kind, and reports the maximum staleness", async () => {
  const metrics = await createPrometheusMetrics();
  const kind = "pods.v1.";
  metrics.watchCache(() => [{ kind, objects: 2, staleMs: 5_000, watches: 1 }]);
  metrics.watchCache(() => [{ kind, objects: 3, staleMs: 1_000, watches: 4 }]);
  const { text } = await metrics.scrape();
  expect(text).toContain(`keelson_cache_objects{kind="${kind}"} 5\n`);
  expect(text).toContain(`keelson_cache_staleness_seconds{kind="${kind}"} 5\n`);
  expect(text).toContain(`keelson_cache_watches{kind="${kind}"} 5\n`);
});

test("reports size, staleness and number of watches of a cached kind", async () => {
  const metrics = await createPrometheusMetrics();
  const api = new FakeApiServer();
  const clock = createVirtualClock();
  const client = createClient({ transport: api, fieldManager: "test", clock });
  await client.create(robotType, { metadata: { namespace: "a", name: "r" } });
  await using manager = createManager({ client, clock, name: "t", controllers: [], reads: [readOf(robotType)], metrics });
  const starting = manager.startCaches();
  await clock.advance(0);
  await starting;
  await clock.advance(7_000);
  const figures = async (): Promise<(string | undefined)[]> => {
    const { text } = await metrics.scrape();
    return ["objects", "staleness_seconds", "watches"].map(
      (name) => new RegExp(`^keelson_cache_${name}\\{kind="robots.v1.example.org"\\} (.*)$`, "m").exec(text)?.[1],
    );
  };
  expect(await figures()).toEqual(["1", "7", "1"]);
  api.bookmark();
  await clock.advance(0);
  expect(await figures()).toEqual(["1", "0", "1"]);
  api.endWatches(new Error("cut"));
  await clock.advance(2_000);
  expect((await figures())[2]).toBe("2");
});

function fail(): never {
  throw new Error("not supported");
}
