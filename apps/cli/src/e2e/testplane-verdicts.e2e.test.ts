import { ConfigMap, Pod } from "@keelson/api-machinery/kinds";
import type { Client } from "@keelson/client";
import { watched } from "@keelson/client/testing";
import { IntegrationTest, LoadTest } from "@keelson/testplane";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { serveHttp } from "../testing/http-server.ts";
import { startTestKeelson, type TestKeelson } from "../testing/local-keelson.ts";
import { temporaryFolder } from "../testing/temporary-folder.ts";

const namespace = "default";
const folder = temporaryFolder();
let keelson: TestKeelson;
let client: Client;
beforeAll(async () => {
  keelson = await startTestKeelson(folder.path, "--only", "cluster,testplane");
  client = await keelson.client();
}, 60_000);
afterAll(async () => {
  await client.close();
  await keelson[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
}, 60_000);

const containers = (script: string) => [{ name: "main", image: "none", command: ["/bin/sh", "-c", script] }];
const load = (name: string, script: string): LoadTest["spec"] => ({
  target: {
    resource: { manifest: { apiVersion: "v1", kind: "ConfigMap", metadata: { name: `${name}-target` }, data: { up: "yes" } } },
  },
  workload: {
    resources: [
      {
        manifest: {
          apiVersion: "v1",
          kind: "Pod",
          metadata: { name: `${name}-generator` },
          spec: { restartPolicy: "Never", containers: containers(script) },
        },
      },
    ],
  },
  healthCheck: { intervalSeconds: 1, allOf: [{ function: "ResourceExists" }] },
});

describe("verdicts on real programs", { timeout: 90_000 }, () => {
  it.each([
    ["exits with 0", "succeeds", "echo 4711 requests, 0 errors", "Succeeded", 0],
    ["exits with 1", "fails", "echo 4711 requests, 99 errors; exit 1", "Failed", 1],
  ])("a load test whose workload %s %s, and its output is kept", async (_, name, script, phase, exitCode) => {
    await client.create(LoadTest, { metadata: { name, namespace }, spec: load(name, script) });
    const done = await watched(client, LoadTest, name, (each) => each?.status?.workloadCleaned === true);
    expect(done?.status).toMatchObject({ phase, workloadOutput: [{ pod: `${name}-generator`, exitCode }] });
    const output = await client.get(ConfigMap, { namespace, name: `${name}-output` });
    expect(output.data?.[`${name}-generator.main.log`]).toContain("4711 requests");
    expect(done?.status?.workloadOutput?.[0]?.tail).toContain("4711 requests");
  });

  it("a load test is judged by the summary that k6 prints", async () => {
    const metrics = {
      http_reqs: { count: 500, rate: 50 },
      http_req_failed: { passes: 5, fails: 495, value: 0.01 },
      http_req_duration: { avg: 12, min: 1, med: 10, max: 340, "p(95)": 220 },
    };
    const spec = load("summary", `echo running; echo '${JSON.stringify({ metrics })}'`);
    const successCriteria = { maxErrorPercent: 1, latency: [{ percentile: 95, maxMilliseconds: 200 }] };
    await client.create(LoadTest, { metadata: { name: "summary", namespace }, spec: { ...spec, successCriteria } });
    const done = await watched(client, LoadTest, "summary", (each) => each?.status?.workloadCleaned === true);
    expect(done?.status).toMatchObject({
      ...{ phase: "Failed", verdict: "Failed", reason: "CriteriaNotMet" },
      message: "latency p95 is 220 ms, must be at most 200 ms",
      load: { source: "K6", requests: 500, errorPercent: 1 },
      criteria: [{ state: "Met" }, { state: "Met" }, { name: "latency p95", state: "NotMet" }],
    });
  });

  it("the load generator counts as many requests as the server, and its criteria decide", async () => {
    let requests = 0;
    await using server = await serveHttp((_, response) => response.writeHead(++requests % 10 === 0 ? 503 : 200).end("ok"));
    const target = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "web" }, data: { address: server.address } };
    const spec: LoadTest["spec"] = {
      target: { resource: { manifest: target } },
      workload: {
        envInjection: [{ name: "ADDRESS", extract: { function: "FieldPath", params: { path: "data.address" } } }],
        generator: { url: "http://${{ values.ADDRESS }}/", rate: 200, duration: "2s", requestTimeout: "30s", workers: 2 },
      },
      successCriteria: { maxErrorPercent: 10, latency: [{ percentile: 99.5, maxMilliseconds: 60_000 }] },
    };
    await client.create(LoadTest, { metadata: { name: "web", namespace }, spec });
    const done = await watched(client, LoadTest, "web", (each) => each?.status?.workloadCleaned === true);
    expect(done?.status).toMatchObject({
      ...{ phase: "Succeeded", verdict: "Passed" },
      load: { state: "Complete", workers: 2, requests: 400, failed: 40, notSent: 0, statusCodes: { 200: 360, 503: 40 } },
      criteria: [{ name: "maxErrorPercent", actual: "10 %" }, { name: "latency p99.5" }],
    });
    expect(requests).toBe(400);
    for (const pod of ["web-load-0", "web-load-1"]) await watched(client, Pod, pod, (each) => each === undefined);
  });

  it("a script reports its exit code, standard output and standard error, and its Pod is deleted", async () => {
    const script = { content: "echo out; echo err >&2; exit 7" };
    const check = { allOf: [{ cel: "result.exitCode == 7 && result.stdout == 'out\\n' && result.stderr == 'err\\n'" }] };
    const spec = {
      steps: [
        { name: "run", timeoutSeconds: 60, script, expectations: check },
        { name: "fails", script },
      ],
    };
    await client.create(IntegrationTest, { metadata: { name: "script", namespace }, spec });
    const done = await watched(client, IntegrationTest, "script", (each) => each?.status?.completionTime !== undefined);
    expect(done?.status?.steps).toMatchObject([
      { state: "Succeeded", result: { exitCode: 7, stdout: "out\n", stderr: "err\n" } },
      { state: "Failed", reason: "ProgramFailed", message: "exit code 7: err" },
    ]);
    const pod = done?.status?.steps?.[0]?.object?.name ?? "";
    await watched(client, Pod, pod, (each) => each === undefined);
  });

  it("a Deployment that crash-loops never counts as ready", async () => {
    const labels = { app: "looping" };
    const manifest = {
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata: { name: "looping" },
      spec: {
        replicas: 1,
        selector: { matchLabels: labels },
        // Ready for a second after each start.
        template: { metadata: { labels }, spec: { containers: containers("sleep 1; echo out of luck; exit 3") } },
      },
    };
    const readyCondition = { allOf: [{ function: "DeploymentReady" }] };
    const steps = [{ name: "ready", timeoutSeconds: 60, resource: { manifest }, readyCondition }];
    await client.create(IntegrationTest, { metadata: { name: "looping", namespace }, spec: { steps } });
    const done = await watched(client, IntegrationTest, "looping", (each) => each?.status?.completionTime !== undefined);
    expect(done?.status?.steps?.[0]).toMatchObject({ state: "Failed", reason: "CheckFailed" });
    expect(done?.status?.steps?.[0]?.message).toMatch(/container main of Pod looping-\S+ is crash-looping: exit code 3/);
  });
});
