import { existsSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ConfigMap, Job, Pod } from "@keelson/api-machinery/kinds";
import type { Client } from "@keelson/client";
import { watched } from "@keelson/client/testing";
import { IntegrationTest, LoadTest } from "@keelson/testplane";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { serveHttp } from "../testing/http-server.ts";
import { killAndRestart } from "../testing/kill.ts";
import { startTestKeelson, type TestKeelson } from "../testing/local-keelson.ts";
import { programsOf } from "../testing/processes-of.ts";
import { temporaryFolder } from "../testing/temporary-folder.ts";

/*
 * `keelson up` is killed while tests run programs. Each program records its runs in a file, so that running twice is detected, and
 * waits for the file `go`, so that none ends before the kill. Each test continues with the `keelson up` that the previous one restarted.
 */

const namespace = "default";
const timeout = 180_000;
const flags = ["--only", "cluster,testplane"];
const folder = temporaryFolder();
let keelson: TestKeelson;

beforeAll(async () => {
  keelson = await startTestKeelson(folder.path, ...flags);
});
afterAll(async () => {
  await keelson[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
});

/** Kills `keelson up` and starts it again. Resolves to a client that is closed at the end of the test. */
async function killAndReconnect(): Promise<Client> {
  keelson = await killAndRestart(keelson, folder.path, ...flags);
  const client = await keelson.client();
  onTestFinished(() => client.close());
  return client;
}

/** A directory for the programs of one test. Releases them even if the test fails. */
function programFolder(): { readonly dir: string; readonly go: () => void } {
  const dir = mkdtempSync(join(folder.path, "programs-"));
  const go = (): void => writeFileSync(join(dir, "go"), "");
  onTestFinished(() => void (existsSync(dir) && go()));
  return { dir, go };
}

/** A batch Job whose program records its start below `dir` and exits once the file `go` exists. */
const program = (name: string, dir: string): Record<string, unknown> => ({
  apiVersion: "batch/v1",
  kind: "Job",
  metadata: { name },
  spec: {
    backoffLimit: 0,
    template: {
      spec: {
        restartPolicy: "Never",
        terminationGracePeriodSeconds: 1,
        containers: [
          {
            name: "main",
            image: "none",
            command: ["/bin/sh", "-c", `echo ran >> ${dir}/ran-${name}; while [ ! -e ${dir}/go ]; do sleep 0.1; done`],
          },
        ],
      },
    },
  },
});

/** A test with an object and two programs. */
const specOf = (mode: "Sequential" | "Parallel", dir: string): IntegrationTest["spec"] => ({
  mode,
  steps: [
    {
      name: "note",
      resource: { manifest: { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "note" }, data: { a: "1" } } },
      expectations: { allOf: [{ function: "FieldEquals", params: { path: "data.a", value: "1" } }] },
    },
    ...["one", "two"].map((name) => ({
      name,
      resource: { manifest: program(name, dir) },
      readyCondition: { allOf: [{ function: "JobComplete" }] },
      expectations: { allOf: [{ function: "ResourceExists" }] },
    })),
  ],
});

const timesRan = (dir: string): Record<string, number> =>
  Object.fromEntries(
    readdirSync(dir)
      .filter((name) => name.startsWith("ran-"))
      .map((name) => [name.slice("ran-".length), readFileSync(join(dir, name), "utf8").trim().split("\n").length]),
  );

/** When to kill: the state to wait for. */
const moments = {
  "right after its creation": () => Promise.resolve(),
  "once its first step is recorded": (client: Client) =>
    watched(client, IntegrationTest, "crash", (each) => each?.status?.steps?.[0]?.state !== undefined),
  "while its first program runs": (client: Client) => watched(client, Job, "one", (each) => (each?.status?.active ?? 0) > 0),
} as const;

test.for((["Sequential", "Parallel"] as const).flatMap((mode) => Object.keys(moments).map((when) => [mode, when] as const)))(
  "kill -9 of up, %s mode: a test killed %s completes, runs nothing twice and leaves nothing behind",
  { timeout },
  async ([mode, when]) => {
    const { dir, go } = programFolder();
    const before = await keelson.client();
    await before.create(IntegrationTest, { metadata: { name: "crash", namespace }, spec: specOf(mode, dir) });
    await moments[when as keyof typeof moments](before);
    await before.close();

    const client = await killAndReconnect();
    go();
    const done = await watched(client, IntegrationTest, "crash", (each) => each?.status?.completionTime !== undefined);
    const steps = JSON.stringify(done?.status?.steps);
    expect(done?.status, steps).toMatchObject({ phase: "Succeeded", completedRounds: 1, failedRounds: 0 });
    expect(done?.status?.steps?.map(({ state }) => state)).toEqual(["Succeeded", "Succeeded", "Succeeded"]);
    expect(timesRan(dir)).toEqual({ one: 1, two: 1 });

    await client.delete(IntegrationTest, { namespace, name: "crash" }, { propagationPolicy: "Foreground" });
    await watched(client, IntegrationTest, "crash", (each) => each === undefined);
    for (const type of [Job, Pod]) expect((await client.list<never>(type as never, { namespace })).items).toEqual([]);
    await watched(client, ConfigMap, "note", (each) => each === undefined);
    await expect.poll(() => programsOf(dir)).toEqual([]);
  },
);

const loadMoments = {
  "while it waits for its target": (client: Client, _dir: string) =>
    watched(client, LoadTest, "crash", (each) => each?.status?.readyConditionStatus?.state === "Running"),
  "while its load runs": async (client: Client, dir: string) => {
    await watched(client, ConfigMap, "target", (each) => each !== undefined);
    await client.patch(ConfigMap, { namespace, name: "target" }, { type: "merge", body: { data: { up: "yes" } } });
    // Killing right after the Pod's creation could exhaust the Job's time before the program starts.
    await expect.poll(() => timesRan(dir)).toEqual({ load: 1 });
  },
} as const;

test.for(Object.keys(loadMoments))(
  "kill -9 of up %s: a load test continues, starts its load once and stops it",
  { timeout },
  async (when) => {
    const { dir } = programFolder();
    const before = await keelson.client();
    const isUp = { allOf: [{ function: "FieldEquals", params: { path: "data.up", value: "yes" } }] };
    await before.create(LoadTest, {
      metadata: { name: "crash", namespace },
      spec: {
        target: {
          resource: { manifest: { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "target" }, data: { zone: "a" } } },
          readyCondition: isUp,
        },
        workload: {
          envInjection: [{ name: "ZONE", extract: { function: "FieldPath", params: { path: "data.zone" } } }],
          resources: [{ manifest: program("load", dir) }],
        },
        healthCheck: { intervalSeconds: 1, ...isUp },
        durationSeconds: 10,
      },
    });
    await loadMoments[when as keyof typeof loadMoments](before, dir);
    await before.close();

    const client = await killAndReconnect();
    await client.patch(ConfigMap, { namespace, name: "target" }, { type: "merge", body: { data: { up: "yes" } } });
    const done = await watched(client, LoadTest, "crash", (each) => each?.status?.workloadCleaned === true);
    expect(done?.status).toMatchObject({
      phase: "Succeeded",
      injectedValues: { ZONE: "a" },
      healthCheckStatus: { failCount: 0 },
    });
    expect(timesRan(dir)).toEqual({ load: 1 });
    // The load never ends by itself, so the operator must have stopped it.
    await watched(client, Job, "load", (each) => each === undefined);
    await expect.poll(() => programsOf(dir)).toEqual([]);
    await client.delete(LoadTest, { namespace, name: "crash" }, { propagationPolicy: "Foreground" });
    await watched(client, ConfigMap, "target", (each) => each === undefined);
    await watched(client, LoadTest, "crash", (each) => each === undefined);
  },
);

test("kill -9 of up while the load generator runs: the load continues, and its figures are complete", { timeout }, async () => {
  let requests = 0;
  await using server = await serveHttp((_, response) => {
    requests++;
    response.end();
  });
  const before = await keelson.client();
  await before.create(LoadTest, {
    metadata: { name: "generated", namespace },
    spec: {
      target: { resource: { manifest: { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "target" } } } },
      workload: { generator: { url: `http://${server.address}/`, rate: 50, duration: "6s", requestTimeout: "30s" } },
    },
  });
  await expect.poll(() => requests, { timeout: 60_000 }).toBeGreaterThan(10);
  await before.close();

  const client = await killAndReconnect();
  const done = await watched(client, LoadTest, "generated", (each) => each?.status?.workloadCleaned === true);
  expect(done?.status).toMatchObject({
    verdict: "Passed",
    load: { state: "Complete", requests: 300, failed: 0, notSent: 0 },
  });
  expect(requests).toBe(300);
  await watched(client, Pod, "generated-load-0", (each) => each === undefined);
  await client.delete(LoadTest, { namespace, name: "generated" }, { propagationPolicy: "Foreground" });
  await watched(client, LoadTest, "generated", (each) => each === undefined);
});
