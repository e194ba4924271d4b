import type { KubernetesObject, ResourceType } from "@keelson/api-machinery";
import { Job, Pod } from "@keelson/api-machinery/kinds";
import type { Client } from "@keelson/client";
import { watched } from "@keelson/client/testing";
import { leaseNameOf, type Operator } from "@keelson/operator";
import { mpi, RhinoJob } from "@keelson/mpi";
import { Robot, robots } from "@keelson/robots";
import { Sandbox, SandboxPool, sandboxes } from "@keelson/sandboxes";
import { IntegrationTest, testplane } from "@keelson/testplane";
import { afterAll, beforeAll, expect, test } from "vitest";
import { systemNamespace } from "../local/access/operator-user.ts";
import { startTestKeelson, type TestKeelson } from "../testing/local-keelson.ts";
import { operatorKubeconfig, startOperatorProcess } from "../testing/operator-process.ts";
import { temporaryFolder } from "../testing/temporary-folder.ts";

const namespace = "default";
const folder = temporaryFolder();
let up: TestKeelson;
let admin: Client;

beforeAll(async () => {
  up = await startTestKeelson(folder.path, "--only", "cluster");
  admin = await up.client();
});
afterAll(async () => {
  await admin.close();
  await up[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
});

const exists = { allOf: [{ function: "ResourceExists" as const }] };

async function appears(client: Client, type: ResourceType, name: RegExp): Promise<KubernetesObject> {
  const watch = await client.watch(type, { namespace, resourceVersion: "0" });
  try {
    for await (const { object } of watch) if (name.test(object.metadata.name ?? "")) return object as KubernetesObject;
  } finally {
    watch.close();
  }
  throw new Error(`the watch on ${type.plural} ended before ${String(name)} was there`);
}

/** Fields that the schema defaults. */
const mpiDefaults = { memoryAllocationMode: "FixedPerCoreMemory", memoryAllocationSize: 2, mpiImplementation: "Auto" } as const;

/** A workload per operator that exercises all of its permissions. Middleware has a separate test. */
const works: readonly (readonly [Operator, (client: Client) => Promise<void>])[] = [
  [
    robots,
    async (client) => {
      await client.create(Robot, { metadata: { name: "r1", namespace }, spec: { robotId: "r1" } });
      await watched(client, Robot, "r1", (robot) => robot?.status?.phase === "Pending");
    },
  ],
  [
    testplane,
    async (client) => {
      // The operator may read CustomResourceDefinitions; an administrator grants permissions on the objects of tests.
      const selector = { apiVersion: "apiextensions.k8s.io/v1", kind: "CustomResourceDefinition", name: "robots.none" };
      const step = { name: "look", timeoutSeconds: 1, resource: { selector }, readyCondition: exists };
      await client.create(IntegrationTest, {
        metadata: { name: "look", namespace },
        spec: { mode: "Sequential", steps: [step] },
      });
      await watched(client, IntegrationTest, "look", (each) => each?.status?.phase === "Failed");
    },
  ],
  [
    mpi,
    async (client) => {
      const spec = { image: "local", parallelism: 2, ttl: 60, appExec: "/bin/true", ...mpiDefaults };
      await client.create(RhinoJob, { metadata: { name: "none", namespace }, spec });
      await appears(client, Job, /^none-.*launcher/);
      await watched(client, RhinoJob, "none", (job) => job?.status?.jobStatus !== undefined);
    },
  ],
  [
    sandboxes,
    async (client) => {
      const capacity = { poolMin: 1, poolMax: 1, bufferMin: 0 };
      await client.create(SandboxPool, { metadata: { name: "pool", namespace }, spec: { capacity, maxSandboxesPerPod: 2 } });
      const spec = { image: "host", poolRef: "pool", command: ["true"] };
      await client.create(Sandbox, { metadata: { name: "box", namespace }, spec });
      await appears(client, Pod, /^pool-agent-0$/);
      await watched(client, Sandbox, "box", (box) => box?.status?.phase === "Succeeded");
      await client.delete(Sandbox, { namespace, name: "box" });
      await watched(client, Sandbox, "box", (box) => box === undefined);
    },
  ],
];

// Before the tests that leave objects to reconcile.
test("a second replica reports standby and the lease holder, and becomes ready once the first has stopped", {
  timeout: 300_000,
}, async () => {
  const kubeconfig = await operatorKubeconfig(up, admin, mpi, folder.path);
  await using first = startOperatorProcess(mpi, kubeconfig, folder.path, "first");
  await first.printed(/^ready$/m);
  await using second = startOperatorProcess(mpi, kubeconfig, folder.path, "second");
  await second.printed(/^standby$/m);
  const lease = await up.kubectl(
    "get",
    "lease",
    leaseNameOf(mpi),
    "-n",
    systemNamespace,
    "-o",
    "jsonpath={.spec.holderIdentity}",
  );
  expect(second.output()).toContain(`mpi\tstandby: ${lease} holds the lease\n`);
  expect(second.output()).not.toMatch(/^ready$/m);
  const ask = async (of: string, path: string): Promise<string> => {
    const [, url = ""] = await second.printed(new RegExp(`^${of}\\t(http://127\\.0\\.0\\.1:\\d+)/`, "m"));
    return (await fetch(url + path)).text();
  };
  expect(await ask("probes", "/readyz?verbose")).toContain("[+]informer-sync ok");
  expect(await ask("metrics", "/metrics")).toMatch(/^leader_election_master_status\{name="keelson-mpi"\} 0$/m);
  expect(await first.stop()).toBe(0);
  await second.printed(/^ready$/m);
  const metrics = await ask("metrics", "/metrics");
  expect(metrics).toMatch(/^leader_election_master_status\{name="keelson-mpi"\} 1$/m);
  expect(metrics).toMatch(/^rest_client_requests_total\{code="200",method="GET",host="127\.0\.0\.1:\d+"\} [1-9]/m);
  // No job exists, but the queue is planned once for the nodes.
  const records = JSON.parse(await ask("metrics", "/debug/reconciles")) as readonly { readonly controller: string }[];
  expect(records.filter(({ controller }) => controller !== "mpi-queue")).toEqual([]);
  expect(await second.stop()).toBe(0);
});

test.each(works.map(([operator, work]) => ({ name: operator.name, operator, work })))(
  "$name runs from outside with the permissions of its rules and no others: it leads, works, and nothing is forbidden to it",
  { timeout: 300_000 },
  async ({ operator, work }) => {
    const kubeconfig = await operatorKubeconfig(up, admin, operator, folder.path);
    await using keelson = startOperatorProcess(operator, kubeconfig, folder.path, operator.name);
    await keelson.printed(/^ready$/m);
    await work(admin);
    expect(keelson.output()).not.toMatch(/forbidden/i);
    await admin.deleteCollection(operator.resources[0] as ResourceType, { namespace });
  },
);
