import { Pod } from "@keelson/api-machinery/kinds";
import type { ByteStream, Transport } from "@keelson/api-machinery/transport";
import { startTestEnvironment, type TestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { LoadTest } from "../../api/load-test.ts";
import { LoadRecorder } from "../../generator/load-recorder.ts";
import type { ActionContext } from "../resource-actions.ts";
import { readProgress } from "./load-progress.ts";
import { collectOutput } from "./workload-output.ts";

const namespace = "default";
/** Logs by Pod and container. A container without one cannot be read. */
const logs = new Map<string, string>();
let environment: TestEnvironment;
let client: Client;
beforeAll(async () => {
  environment = await startTestEnvironment({ crds: [LoadTest.crd] });
  client = createClient({ transport: withLogs(environment.transport()), fieldManager: "test" });
});
afterAll(() => environment.stop());
beforeEach(() => logs.clear());

/** Serves the logs of Pods, as a kubelet does. */
function withLogs(transport: Transport): Transport {
  return {
    request: (request) => transport.request(request),
    watch: (request) => transport.watch(request),
    close: () => transport.close(),
    stream: ({ path, query }) => {
      const log = logs.get(`${path.split("/").at(-2)}/${query?.["container"]}`);
      return log === undefined ? Promise.reject(new Error("no kubelet")) : Promise.resolve(streamOf(log));
    },
  };
}

function streamOf(log: string): ByteStream {
  async function* chunks(): AsyncGenerator<Uint8Array> {
    yield Buffer.from(log);
  }
  return { [Symbol.asyncIterator]: chunks, close: () => {} };
}

/** Creates a LoadTest and the Pods of its workload, each with these containers. */
async function create(name: string, workload: LoadTest["spec"]["workload"], pods: Readonly<Record<string, readonly string[]>>) {
  const target = { resource: { selector: { apiVersion: "v1", kind: "Pod", name: "web" } } };
  const owner = await client.create(LoadTest, { metadata: { name, namespace }, spec: { target, workload } });
  for (const [pod, containers] of Object.entries(pods)) {
    const spec = { containers: containers.map((container) => ({ name: container, image: "k6" })) };
    await client.create(Pod, { metadata: { name: pod, namespace }, spec });
    const containerStatuses = containers.map((container) => ({
      ...{ name: container, image: "k6", imageID: "", ready: false, restartCount: 0 },
    }));
    await client.applyStatus(Pod, { metadata: { name: pod, namespace }, status: { containerStatuses } });
  }
  const context: ActionContext = {
    ...{ client, owner, fieldManager: "test", signal: new AbortController().signal },
    mapKind: (_, kind) => (kind === "Pod" ? Pod : undefined),
  };
  return { spec: owner.spec, context };
}

const podNamed = (name: string) => ({ manifest: { apiVersion: "v1", kind: "Pod", metadata: { name } } });
const summary = JSON.stringify({
  metrics: { http_reqs: { count: 20, rate: 4 }, http_req_failed: { passes: 0, fails: 20 } },
});

describe("the figures of k6", () => {
  it("are Partial if an output cannot be read", async () => {
    const resources = [podNamed("one"), podNamed("two")];
    const { spec, context } = await create("unread", { resources }, { one: ["k6"], two: ["k6"] });
    logs.set("one/k6", summary);
    expect(await collectOutput(spec, context)).toMatchObject({
      load: { state: "Partial", requests: 20 },
      workloadOutput: [{ pod: "one" }, { pod: "two", error: "no kubelet" }],
    });
    logs.set("two/k6", summary);
    expect((await collectOutput(spec, context)).load).toMatchObject({ state: "Complete", requests: 40 });
  });

  it("are Partial if there are more containers than are read", async () => {
    const containers = Array.from({ length: 21 }, (_, index) => `k6-${index}`);
    for (const container of containers) logs.set(`many/${container}`, summary);
    const { spec, context } = await create("many", { resources: [podNamed("many")] }, { many: containers });
    expect((await collectOutput(spec, context)).load).toMatchObject({ state: "Partial", workers: 20, requests: 400 });
  });
});

describe("the progress of the built-in generator", () => {
  const generator = { url: "http://web/", rate: 1, duration: "5s" };
  const recorder = new LoadRecorder();
  recorder.record(0, 5, { status: 200, bytes: 1, isExpected: true });
  const resultOf = (histogramBytes: number): string =>
    `${JSON.stringify({
      ...recorder.report("result", 1_000, { isComplete: true, maxPauseMs: 0 }),
      histogram: "A".repeat(histogramBytes),
    })}\n`;

  it("is read from long lines, and is never a part of a line", async () => {
    const { spec, context } = await create("long", { generator }, { "long-load-0": ["generator"] });
    logs.set("long-load-0/generator", resultOf(100_000));
    const progress = await readProgress(spec, context, 0);
    expect(progress).toMatchObject({
      load: { requests: 1 },
      progress: { line: expect.stringContaining("1 requests") as unknown },
    });
    logs.set("long-load-0/generator", resultOf(600_000));
    expect(await readProgress(spec, context, 0)).toEqual({ progress: { observedAt: "1970-01-01T00:00:00.000Z" } });
  });
});
