import { Lease, Node } from "@keelson/api-machinery/kinds";
import { formatMicroTime, systemClock } from "@keelson/api-machinery/time";
import { startTestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { silentLogger } from "@keelson/controller";
import { RhinoJob } from "@keelson/mpi";
import { leaseNameOf, type Operator } from "@keelson/operator";
import { beforeAll, expect, test } from "vitest";
import { loadOperators } from "../operators.ts";
import { collectStatus, type KeelsonStatus, type StatusOptions } from "./collect-status.ts";
import { watchStatus } from "./watch-status.ts";

let operators: readonly Operator[];
beforeAll(async () => {
  operators = (await loadOperators()).filter(({ name }) => name === "mpi");
});

const collect = (client: Client, options: Partial<StatusOptions> = {}): Promise<KeelsonStatus> =>
  collectStatus({
    ...{ client, operators, clock: systemClock, namespace: "default" },
    ...{ probe: () => Promise.resolve(undefined), signal: AbortSignal.timeout(30_000) },
    ...options,
  });

test("reports nodes, operators, and the objects of users", async () => {
  await using environment = await startTestEnvironment({
    crds: operators.flatMap(({ resources }) => resources.map(({ crd }) => crd)),
  });
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  expect((await collect(client)).components).toEqual([
    { name: "apiserver", state: "ready", detail: "" },
    { name: "mpi", state: "not installed", detail: "keelson install --only mpi -n default" },
  ]);

  await client.create(Node, { metadata: { name: "n" } });
  const [mpi] = operators;
  if (mpi === undefined) throw new TypeError("mpi not found");
  const renewTime = formatMicroTime(systemClock.now() - 60_000);
  const spec = { holderIdentity: "pod-1", renewTime, leaseDurationSeconds: 15 };
  await client.create(Lease, { metadata: { namespace: "default", name: leaseNameOf(mpi) }, spec });
  const job = { appExec: "/bin/true", image: "x", parallelism: 1, memoryAllocationSize: 1 };
  await client.create(RhinoJob, { metadata: { namespace: "default", name: "pi" }, spec: job } as unknown as RhinoJob);
  const found = await collect(client);
  expect(found.components.slice(1)).toEqual([
    { name: "node/n", state: "not ready", detail: "has not reported" },
    {
      name: "mpi",
      state: "not ready",
      detail: expect.stringMatching(/^the leader pod-1 has not renewed its lease for \d+ s$/),
    },
  ]);
  expect(found.kinds).toEqual([{ family: "mpi", kind: "RhinoJob", total: 1, states: { "": 1 } }]);
  expect(found.workloads).toMatchObject([{ kind: "RhinoJob", namespace: "default", name: "pi", state: "", detail: "" }]);
});

test("reports the operators of keelson up by its probe, and an API server that does not respond", async () => {
  await using environment = await startTestEnvironment({});
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  const local = {
    ...{ pid: 1, operators: ["mpi"], components: [{ name: "mpi", description: "queue" }] },
    endpoints: { apiserver: "https://here", metrics: "http://there" },
  };
  expect((await collect(client, { local })).components).toEqual([
    { name: "apiserver", state: "ready", detail: "https://here" },
    { name: "mpi", state: "ready", detail: "queue" },
  ]);
  const probe = (url: string): Promise<string> => Promise.resolve(`${url} failed`);
  expect((await collect(client, { local, probe })).components[1]).toEqual({
    ...{ name: "mpi", state: "not ready", detail: "http://there/readyz?verbose failed" },
  });
  const broken = { ...client, get: () => Promise.reject(new Error("connection refused")) };
  expect(await collect(broken, { local })).toEqual({
    components: [{ name: "apiserver", state: "not ready", detail: "connection refused" }],
    kinds: [],
    workloads: [],
    problems: [],
  });
});

test("a watch refreshes after a change", async () => {
  await using environment = await startTestEnvironment({});
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  const stop = new AbortController();
  const seen: number[] = [];
  const watching = watchStatus({
    ...{ client, clock: systemClock, log: silentLogger, random: Math.random, types: [Node], signal: stop.signal },
    refresh: async () => {
      seen.push((await client.list(Node)).items.length);
      if (seen.length === 1) await client.create(Node, { metadata: { name: "n" } });
      else if (seen.includes(1)) stop.abort();
    },
  });
  await watching;
  expect(seen.at(-1)).toBe(1);
});
