import { PassThrough } from "node:stream";
import { text } from "node:stream/consumers";
import { defineResource } from "@keelson/api-machinery";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { Pod } from "@keelson/api-machinery/kinds";
import { startTestEnvironment, type TestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { silentLogger } from "@keelson/controller";
import { Type } from "typebox";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { labels } from "../api/names.ts";
import { MPIJob } from "../api/mpi-job.ts";
import { RhinoJob } from "../api/rhino-job.ts";
import { commands } from "./commands.ts";

const namespace = "default";
let environment: TestEnvironment;
let client: Client;

beforeEach(async () => {
  environment = await startTestEnvironment({ crds: [RhinoJob.crd, MPIJob.crd] });
  client = createClient({ transport: environment.transport(), fieldManager: "test" });
});
afterEach(() => environment.stop());

/** Starts a command, and returns its exit status and output when it has ended. */
function start(name: string, args: string[], flags: Record<string, string | true> = {}, clock = createVirtualClock()) {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const output = Promise.all([text(stdout), text(stderr)]);
  const definition = commands.find((each) => each.name === name);
  const connect = () => Promise.resolve(createClient({ transport: environment.transport(), fieldManager: "keelson" }));
  const context = {
    args,
    flags,
    stdout,
    stderr,
    clock,
    log: silentLogger,
    signal: new AbortController().signal,
    client: connect,
  };
  const exited = definition?.run(context).finally(() => {
    stdout.end();
    stderr.end();
  });
  return Promise.all([exited, output]).then(([exitCode, [out, err]]) => ({ exitCode, out, err }));
}

const create = () => {
  const spec = { image: "x", appExec: "./pi", parallelism: 2 } as RhinoJob["spec"];
  return client.create(RhinoJob, { metadata: { name: "pi", namespace }, spec });
};
const setStatus = (status: RhinoJob["status"]) =>
  client.patch(RhinoJob, { namespace, name: "pi" }, { type: "merge", body: { status } }, { subresource: "status" });

/** metrics.k8s.io/v1beta1 PodMetrics, stored here as a metrics server computes them. */
const PodMetrics = defineResource({
  ...{ group: "metrics.k8s.io", version: "v1beta1", kind: "PodMetrics", plural: "pods", description: "Use of a Pod." },
  spec: Type.Object({}, { description: "Unused." }),
});
const anything = { type: "object", "x-kubernetes-preserve-unknown-fields": true } as const;
const podMetricsCrd: typeof PodMetrics.crd = {
  ...PodMetrics.crd,
  metadata: { ...PodMetrics.crd.metadata, annotations: { "api-approved.kubernetes.io": "unapproved, test" } },
  spec: {
    ...PodMetrics.crd.spec,
    versions: PodMetrics.crd.spec.versions.map((each) => ({ ...each, schema: { openAPIV3Schema: anything } })),
  },
};

describe("keelson mpi", () => {
  it("suspends and resumes jobs", async () => {
    await create();
    const suspended = async () => (await client.get(RhinoJob, { namespace, name: "pi" })).spec.runPolicy?.suspend;
    expect(await start("suspend", ["pi"])).toEqual({ exitCode: 0, out: "job pi suspended\n", err: "" });
    expect(await suspended()).toBe(true);
    expect((await start("resume", ["pi"])).out).toBe("job pi resumed\n");
    expect(await suspended()).toBe(false);
    expect(await start("suspend", ["other"])).toMatchObject({
      exitCode: 1,
      err: "job other not found in namespace default\n",
    });
  });

  it("cancels jobs", async () => {
    await create();
    expect(await start("cancel", ["pi"])).toEqual({ exitCode: 0, out: "job pi cancelled\n", err: "" });
    const { metadata } = await client.get(RhinoJob, { namespace, name: "pi" });
    expect(metadata.annotations).toEqual({ "openrhino.org/cancel": "true" });
  });

  it.each([
    ["cancel", "cancelled"],
    ["suspend", "suspended"],
    ["resume", "resumed"],
  ])("says that a job has ended instead of %s", async (command, done) => {
    await create();
    await setStatus({ jobStatus: "Completed", exitCode: 0 });
    expect(await start(command, ["pi"])).toEqual({
      exitCode: 1,
      out: "",
      err: `job pi has already ended: Completed; it cannot be ${done}\n`,
    });
  });

  it("rejects the logs of one rank with those of the daemons", async () => {
    await create();
    await expect(start("logs", ["pi"], { rank: "1", workers: true })).rejects.toThrow(
      "--rank cannot be combined with --workers",
    );
  });

  it("lists the jobs of both kinds that wait for admission, in order", async () => {
    expect((await start("queue", [])).out).toBe("No jobs wait for admission\n");
    await create();
    const container = { name: "c", image: "x" };
    await client.create(MPIJob, {
      metadata: { name: "mine", namespace },
      spec: { mpiReplicaSpecs: { Launcher: { template: { spec: { containers: [container] } } } } },
    });
    const queue = { name: "default", position: 2, reason: "InsufficientCapacity", message: "1 of 3 Pods fit" };
    await setStatus({ queue });
    const status = { queue: { name: "team", position: 1, reason: "QueueHeld" } };
    const patch = { type: "merge" as const, body: { status } };
    await client.patch(MPIJob, { namespace, name: "mine" }, patch, { subresource: "status" });
    const lines = (await start("queue", [])).out.split("\n");
    expect(lines[0]).toMatch(/^POSITION +NAMESPACE +NAME +KIND +QUEUE +REASON +MESSAGE +SINCE/);
    expect(lines[1]).toMatch(/^1 +default +mine +MPIJob +team +QueueHeld/);
    expect(lines[2]).toMatch(/^2 +default +pi +RhinoJob +default +InsufficientCapacity +1 of 3 Pods fit/);
    expect((await start("queue", [], { queue: "team" })).out).not.toContain("RhinoJob");
  });

  it("waits for a job to finish and exits with its status", async () => {
    await create();
    const waiting = start("wait", ["pi"]);
    await setStatus({ jobStatus: "Running" });
    await setStatus({ jobStatus: "Failed", message: "rank 1 failed", exitCode: 3 });
    expect(await waiting).toMatchObject({ exitCode: 3, out: "pi: Failed: rank 1 failed\n" });
    await setStatus({ jobStatus: "Completed", exitCode: 0 });
    expect((await start("wait", ["pi"])).exitCode).toBe(0);
    expect((await start("wait", ["other"])).exitCode).toBe(1);
  });

  it("stops waiting after --timeout", async () => {
    await create();
    const clock = createVirtualClock();
    const waiting = start("wait", ["pi"], { timeout: "30s" }, clock);
    await clock.advance(30_000);
    expect(await waiting).toMatchObject({ exitCode: 124, err: "pi has not ended after 30 s\n" });
  });

  it("says how to label output if a rank's output is requested without labels", async () => {
    await create();
    expect(await start("logs", ["pi"], { rank: "1" })).toEqual({
      exitCode: 1,
      out: "",
      err: "the output of pi has no labels of ranks; start the job with --label or spec.labelOutput\n",
    });
  });

  it("shows what the running Pods of jobs use, if the cluster measures it", async () => {
    expect(await start("top", [])).toMatchObject({ exitCode: 1, err: expect.stringContaining("metrics.k8s.io") });
    await environment.stop();
    environment = await startTestEnvironment({ crds: [RhinoJob.crd, podMetricsCrd] });
    client = createClient({ transport: environment.transport(), fieldManager: "test" });
    expect((await start("top", [])).out).toBe("No running Pods of jobs\n");
    const { metadata: job } = await create();
    for (const name of ["l", "w-0"]) {
      const spec = { containers: [{ name: "c", image: "x" }] };
      await client.create(Pod, { metadata: { name, namespace, labels: { [labels.uid]: job.uid, [labels.app]: "pi" } }, spec });
      const status = { phase: "Running" };
      await client.patch(Pod, { namespace, name }, { type: "merge", body: { status } }, { subresource: "status" });
    }
    const containers = [
      { name: "c", usage: { cpu: "1500000001n", memory: "2Mi" } },
      { name: "d", usage: { cpu: "1m", memory: "1Ki" } },
    ];
    await client.create(PodMetrics, { metadata: { name: "w-0", namespace }, containers } as never);
    const { out } = await start("top", ["pi"]);
    expect(out).toMatch(/^pi +l +- +-$/m);
    expect(out).toMatch(/^pi +w-0 +1502m +3Mi$/m);
    expect(await start("top", ["other"])).toMatchObject({
      exitCode: 1,
      err: "job other not found in namespace default; list jobs: keelson mpi list -n default\n",
    });
  });

  it("explains the state of a job by its conditions and Pods", async () => {
    const job = await create();
    const now = "2026-01-01T00:00:00Z";
    const conditions = [
      { type: "Running", status: "False" as const, reason: "Unschedulable", message: "", lastTransitionTime: now },
    ];
    await setStatus({ jobStatus: "Pending", message: "worker w-0 cannot start", attempt: 2, failures: 1, conditions });
    await client.create(Pod, {
      metadata: { name: "w-0", namespace, labels: { [labels.uid]: job.metadata.uid } },
      spec: { containers: [{ name: "c", image: "x" }] },
    });
    const scheduled = { type: "PodScheduled", status: "False" as const, reason: "Unschedulable", message: "0/1 nodes fit" };
    const status = { phase: "Pending", conditions: [scheduled] };
    await client.patch(Pod, { namespace, name: "w-0" }, { type: "merge", body: { status } }, { subresource: "status" });
    const { exitCode, out } = await start("explain", ["pi"]);
    expect(exitCode).toBe(0);
    expect(out).toContain("pi: Pending: worker w-0 cannot start\nattempt 2, 1 failed before\n");
    expect(out).toMatch(/^Running +False +Unschedulable +2026-01-01T00:00:00Z/m);
    expect(out).toMatch(/^w-0 +Pending .*Unschedulable: 0\/1 nodes fit/m);
    expect((await start("explain", ["other"])).exitCode).toBe(1);
  });

  it("needs no permission to read MPIJobs", async () => {
    await create();
    const path = "/apis/kubeflow.org/v2beta1/";
    environment.faults.failNext({ reason: "Forbidden", when: (request) => request.path.startsWith(path), times: 3 });
    expect((await start("list", [])).out).toMatch(/^pi .* RhinoJob$/m);
    expect(await start("explain", ["other"])).toMatchObject({ exitCode: 1, err: expect.stringContaining("not found") });
    expect(environment.faults.injected).toBe(2);
  });

  it("lists and explains MPIJobs too, if the cluster has them", async () => {
    await create();
    expect((await start("list", [])).out).toMatch(/^pi .* RhinoJob$/m);
    await environment.stop();
    environment = await startTestEnvironment({ crds: [RhinoJob.crd, MPIJob.crd] });
    client = createClient({ transport: environment.transport(), fieldManager: "test" });
    const template = { spec: { containers: [{ name: "c", image: "x", command: ["mpirun", "pi"] }] } };
    const spec = { slotsPerWorker: 2, mpiReplicaSpecs: { Launcher: { template }, Worker: { replicas: 3, template } } };
    await client.create(MPIJob, { metadata: { name: "v2", namespace }, spec });
    const status = { jobStatus: "Failed" as const, message: "the command failed", exitCode: 3 };
    await client.applyStatus(MPIJob, { metadata: { name: "v2", namespace }, status });
    expect((await start("list", [])).out).toMatch(/^v2 +6 +Failed +3 .* MPIJob$/m);
    expect((await start("explain", ["v2"])).out).toContain("v2: Failed: the command failed\n");
  });

  it("prints the manifest and the launch line in a dry run, and creates nothing", async () => {
    const flags = { "dry-run": true as const, np: "3", slots: "2", name: "pi", retries: "1", mpi: "OpenMPI" };
    const { exitCode, out, err } = await start("run", ["/bin/echo", "a b"], flags);
    expect(exitCode).toBe(0);
    expect(JSON.parse(out)).toMatchObject({
      kind: "RhinoJob",
      metadata: { name: "pi", namespace },
      spec: { parallelism: 3, slotsPerWorker: 2, runPolicy: { backoffLimit: 1 }, appArgs: ["a b"] },
    });
    expect(err).toMatch(/^\S*mpiexec\S* .*-mca plm_rsh_agent AGENT .*-n 3 --host w0:2,w1:1 .* \/bin\/echo 'a b'\n$/);
    expect((await client.list(RhinoJob, { namespace })).items).toEqual([]);
  });
});
