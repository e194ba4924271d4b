import type { DeepReadonly } from "@keelson/api-machinery";
import { ConfigMap, Pod } from "@keelson/api-machinery/kinds";
import type { ApiRequest, ApiResponse, ByteStream, Transport } from "@keelson/api-machinery/transport";
import { startTestEnvironment, type TestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { watched } from "@keelson/client/testing";
import { startOperator } from "@keelson/operator";
import { expect, it } from "vitest";
import { IntegrationTest } from "./api/integration-test.ts";
import { LoadTest } from "./api/load-test.ts";
import { testplane } from "./operator.ts";
import { reportLine } from "./tools/tool-report.ts";

const namespace = "default";

/** A transport that breaks permanently at its n-th write, before the request is sent or before the response arrives. */
function dying(transport: Transport, dieAt: number, when: "before" | "after") {
  let writes = 0;
  let isDead = false;
  let die: () => void = () => {};
  const died = new Promise<void>((resolve) => {
    die = () => {
      isDead = true;
      resolve();
    };
  });
  const request = async (what: ApiRequest): Promise<ApiResponse> => {
    // Events are recorded asynchronously; a failing one would delay the stop.
    if (what.path.includes("/events")) return transport.request(what);
    if (what.method !== "GET" && !isDead && writes++ === dieAt) {
      if (when === "before") die();
      else await transport.request(what).finally(die);
    }
    if (isDead) throw new Error("the connection is broken");
    return transport.request(what);
  };
  return {
    transport: {
      ...transport,
      request,
      watch: (what: ApiRequest) => transport.watch(what),
      stream: () => (isDead ? Promise.reject(new Error("the connection is broken")) : podLog()),
      close: () => transport.close(),
    } satisfies Transport,
    died,
    writes: () => writes,
  };
}

/** The log of every Pod: the report of a tool. */
function podLog(): Promise<ByteStream> {
  const line = reportLine({ kind: "result", result: { exitCode: 0, stdout: "{}", stderr: "", statusCode: 201 } });
  return Promise.resolve({
    close: () => {},
    async *[Symbol.asyncIterator]() {
      yield Buffer.from(`${line}\n`);
    },
  });
}

const withLogs = (transport: Transport): Transport => ({
  request: (what) => transport.request(what),
  watch: (what) => transport.watch(what),
  stream: podLog,
  close: () => transport.close(),
});

/** A node whose Pods succeed immediately. Resolves to the names of the Pods that it has run. */
async function startNode(environment: TestEnvironment): Promise<AsyncDisposable & { readonly ran: readonly string[] }> {
  const client = createClient({ transport: environment.transport(), fieldManager: "node" });
  const stop = new AbortController();
  const { signal } = stop;
  const ran: string[] = [];
  const { metadata } = await client.list(Pod, { signal });
  const watch = await client.watch(Pod, { resourceVersion: metadata.resourceVersion ?? "", signal });
  const running = (async () => {
    for await (const event of watch) {
      if (event.type !== "ADDED") continue;
      const { name = "" } = event.object.metadata;
      ran.push(name);
      const body = { status: { phase: "Succeeded" } };
      await client.patch(Pod, { namespace, name }, { type: "merge", body }, { subresource: "status" });
    }
  })();
  const stopNode = async (): Promise<void> => {
    stop.abort();
    await running.catch(() => {});
  };
  return { ran, [Symbol.asyncDispose]: stopNode };
}

const configMap = (name: string) => ({ apiVersion: "v1", kind: "ConfigMap", metadata: { name }, data: { state: "on" } });
const isOn = { allOf: [{ function: "FieldEquals", params: { path: "data.state", value: "on" } }] };

interface Kind {
  readonly make: (client: Client) => Promise<unknown>;
  /** Number of Pods that it runs, each once. Default: 0. */
  readonly pods?: number;
  /** Resolves to the final status. */
  readonly end: (client: Client) => Promise<DeepReadonly<object> | undefined>;
  readonly expected: object;
}

const kinds: Readonly<Record<string, Kind>> = {
  IntegrationTest: {
    make: (client) =>
      client.create(IntegrationTest, {
        metadata: { name: "crash", namespace },
        spec: {
          repeat: { count: 2 },
          steps: [
            {
              name: "make",
              resource: { manifest: configMap("made") },
              expectations: { allOf: [{ function: "ResourceExists" }] },
            },
            {
              name: "remove",
              resource: { action: "Delete", manifest: configMap("made") },
              expectations: { allOf: [{ function: "ResourceNotExists" }] },
            },
          ],
        },
      }),
    end: async (client) =>
      (await watched(client, IntegrationTest, "crash", (test) => test?.status?.completionTime !== undefined))?.status,
    expected: {
      phase: "Succeeded",
      completedRounds: 2,
      failedRounds: 0,
      roundHistory: [
        { round: 1, outcome: "Succeeded" },
        { round: 2, outcome: "Succeeded" },
      ],
    },
  },
  "IntegrationTest with actions and cleanup": {
    make: (client) =>
      client.create(IntegrationTest, {
        metadata: { name: "crash", namespace },
        spec: {
          steps: [
            {
              name: "make",
              create: { manifests: [configMap("made"), configMap("more")] },
              outputs: [{ name: "state", cel: "object.data.state" }],
              cleanup: [{ name: "remove", delete: { object: { apiVersion: "v1", kind: "ConfigMap", name: "made" } } }],
            },
            {
              name: "patch",
              patch: {
                object: { apiVersion: "v1", kind: "ConfigMap", name: "made" },
                body: { data: { state: "${{ outputs.state + '!' }}" } },
              },
              expectations: { allOf: [{ cel: "object.data.state == 'on!'" }] },
            },
          ],
        },
      }),
    end: async (client) =>
      (await watched(client, IntegrationTest, "crash", (test) => test?.status?.completionTime !== undefined))?.status,
    expected: {
      phase: "Succeeded",
      verdict: "Passed",
      steps: [{ state: "Succeeded" }, { state: "Succeeded" }, { phase: "Cleanup", state: "Succeeded" }],
    },
  },
  "IntegrationTest whose steps have catch and finally steps": {
    make: (client) =>
      client.create(IntegrationTest, {
        metadata: { name: "crash", namespace },
        spec: {
          steps: [
            { name: "pass", sleep: "1ms", finally: [{ name: "close", create: { manifests: [configMap("closed")] } }] },
            {
              name: "fail",
              expectations: { allOf: [{ cel: "true" }], failWhen: [{ cel: "true" }] },
              catch: [{ name: "dump", create: { manifests: [configMap("dumped")] } }],
              finally: [{ name: "close", create: { manifests: [configMap("closed-too")] } }],
            },
          ],
          finally: [{ name: "end", create: { manifests: [configMap("ended")] } }],
        },
      }),
    end: async (client) =>
      (await watched(client, IntegrationTest, "crash", (test) => test?.status?.completionTime !== undefined))?.status,
    expected: {
      phase: "Failed",
      verdict: "Failed",
      steps: [
        { state: "Succeeded" },
        { state: "Failed" },
        // An object that exists would fail these steps: each has run once.
        { name: "pass: close", phase: "Finally", state: "Succeeded" },
        { name: "fail: dump", phase: "Catch", state: "Succeeded" },
        { name: "fail: close", phase: "Finally", state: "Succeeded" },
        { name: "end", state: "Succeeded" },
      ],
    },
  },
  "IntegrationTest with a request": {
    pods: 2,
    make: (client) =>
      client.create(IntegrationTest, {
        metadata: { name: "crash", namespace },
        spec: {
          steps: [
            {
              name: "order",
              http: { url: "http://shop/orders", method: "POST" },
              outputs: [{ name: "status", cel: "result.statusCode" }],
            },
            {
              name: "order again",
              http: { url: "http://shop/${{ string(outputs.status) }}", method: "POST" },
              expectations: { allOf: [{ cel: "result.statusCode == 201 && size(result.json) == 0" }] },
            },
          ],
        },
      }),
    end: async (client) =>
      (await watched(client, IntegrationTest, "crash", (test) => test?.status?.completionTime !== undefined))?.status,
    expected: {
      phase: "Succeeded",
      verdict: "Passed",
      outputs: { status: 201 },
      steps: [{ state: "Succeeded", result: { statusCode: 201 } }, { state: "Succeeded" }],
    },
  },
  LoadTest: {
    make: (client) =>
      client.create(LoadTest, {
        metadata: { name: "crash", namespace },
        spec: {
          target: { resource: { manifest: configMap("target") }, readyCondition: isOn },
          workload: {
            envInjection: [{ name: "STATE", extract: { function: "FieldPath", params: { path: "data.state" } } }],
            resources: [{ manifest: configMap("load-1") }, { manifest: configMap("load-2") }],
          },
          healthCheck: { intervalSeconds: 1, ...isOn },
          durationSeconds: 1,
        },
      }),
    end: async (client) => {
      const done = await watched(client, LoadTest, "crash", (test) => test?.status?.workloadCleaned === true);
      const left = (await client.list(ConfigMap, { namespace })).items.map(({ metadata }) => metadata.name);
      expect(left.filter((name) => name?.startsWith("load-"))).toEqual([]);
      return done?.status;
    },
    expected: {
      phase: "Succeeded",
      injectedValues: { STATE: "on" },
      healthCheckStatus: { failCount: 0, consecutiveFailures: 0 },
    },
  },
};

/** Runs a test with an operator that dies at a write, then with a new one. Resolves to the number of writes of the first. */
async function runAndDie({ make, end, expected, pods = 0 }: Kind, dieAt: number, when: "before" | "after"): Promise<number> {
  await using environment = await startTestEnvironment({ crds: testplane.resources.map(({ crd }) => crd) });
  const client = createClient({ transport: withLogs(environment.transport()), fieldManager: "test" });
  await using node = await startNode(environment);
  const broken = dying(environment.transport(), dieAt, when);
  const first = await startOperator({
    operator: testplane,
    client: createClient({ transport: broken.transport, fieldManager: "testplane" }),
    dataDir: "/nonexistent",
    gracefulShutdownTimeoutMs: 0,
  });
  await make(client);
  const done = end(client);
  await Promise.race([broken.died, done]);
  await first.stop();
  const second = await startOperator({ operator: testplane, client, dataDir: "/nonexistent" });
  expect(await done, `write ${dieAt}`).toMatchObject(expected);
  await second.stop();
  expect(node.ran, `write ${dieAt}`).toHaveLength(pods);
  return broken.writes();
}

it.each(Object.keys(kinds).flatMap((name) => [[name, "before"] as const, [name, "after"] as const]))(
  "%s finishes with the same result if its operator dies %s any of its writes",
  { timeout: 60_000 },
  async (name, when) => {
    const kind = kinds[name] as Kind;
    const writes = await runAndDie(kind, Number.POSITIVE_INFINITY, when);
    expect(writes).toBeGreaterThan(6);
    await Promise.all(Array.from({ length: writes }, (_, dieAt) => runAndDie(kind, dieAt, when)));
  },
);
