import { readFileSync } from "node:fs";
import { ConfigMap, Job, Pod, Secret, Service } from "@keelson/api-machinery/kinds";
import { startTestEnvironment, type TestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { watched } from "@keelson/client/testing";
import { type RunningOperator, startOperator } from "@keelson/operator";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { MPIJob } from "./api/mpi-job.ts";
import { RhinoJob } from "./api/rhino-job.ts";
import { mpi } from "./operator.ts";

const namespace = "default";
const manifest = parse(readFileSync(new URL("../testdata/mpi-job.yaml", import.meta.url), "utf8")) as MPIJob;
let environment: TestEnvironment;
let client: Client;
let operator: RunningOperator;

beforeEach(async () => {
  environment = await startTestEnvironment({ crds: mpi.resources.map((resource) => resource.crd) });
  client = createClient({ transport: environment.transport(), fieldManager: "test" });
  operator = await startOperator({ operator: mpi, client, dataDir: "/nonexistent", flags: {} });
});

afterEach(async () => {
  await operator.stop();
  await environment.stop();
});

const create = (runPolicy: MPIJob["spec"]["runPolicy"] = {}, spec: Partial<MPIJob["spec"]> = {}) =>
  client.create(MPIJob, { ...manifest, spec: { ...manifest.spec, ...spec, runPolicy } });

describe("the controller of MPIJobs", () => {
  it("applies a manifest of mpi-operator unchanged, and creates what it needs", async () => {
    const job = await client.apply(MPIJob, manifest as never, { fieldValidation: "Strict" });
    expect(job.spec).toMatchObject({ mpiImplementation: "OpenMPI", launcherCreationPolicy: "AtStartup" });
    const prefix = `pi-${job.metadata.uid.slice(0, 5)}`;
    const launcher = await watched(client, Job, `${prefix}-launcher`, (each) => each !== undefined);
    expect(launcher?.metadata.ownerReferences).toMatchObject([{ kind: "MPIJob", uid: job.metadata.uid, controller: true }]);
    expect((await client.get(Service, { namespace, name: `${prefix}-hosts` })).spec?.clusterIP).toBe("None");
    expect(Object.keys((await client.get(ConfigMap, { namespace, name: `${prefix}-hosts` })).data ?? {})).toContain("hostfile");
    expect((await client.get(Secret, { namespace, name: `${prefix}-token` })).metadata.ownerReferences).toHaveLength(1);
    const seen = await watched(client, MPIJob, "pi", (each) => each?.status?.startTime !== undefined);
    expect(seen?.status?.conditions?.find(({ type }) => type === "Created")?.status).toBe("True");
    expect(seen?.status?.replicaStatuses).toMatchObject({ Launcher: { active: 0 }, Worker: { active: 0 } });
  });

  it("runs alongside a RhinoJob of the same name", async () => {
    const job = await create();
    const spec = { image: "x", appExec: "./pi", parallelism: 1 } as RhinoJob["spec"];
    const rhino = await client.create(RhinoJob, { metadata: { name: "pi", namespace }, spec });
    for (const { metadata } of [job, rhino])
      await watched(client, Job, `pi-${metadata.uid.slice(0, 5)}-launcher`, (each) => each !== undefined);
  });

  it("creates no Pods for a job that is suspended at its creation, and starts it when it is resumed", async () => {
    const job = await create({ suspend: true });
    const isSuspended = (each: { readonly type: string; readonly status: string }) =>
      each.type === "Suspended" && each.status === "True";
    const seen = await watched(client, MPIJob, "pi", (each) => each?.status?.conditions?.some(isSuspended) ?? false);
    expect(seen?.status?.startTime).toBeUndefined();
    for (const type of [Job, Pod]) expect((await client.list<never>(type as never, { namespace })).items).toEqual([]);
    const body = { spec: { runPolicy: { suspend: false } } };
    await client.patch(MPIJob, { namespace, name: "pi" }, { type: "merge", body });
    await watched(client, Job, `pi-${job.metadata.uid.slice(0, 5)}-launcher`, (each) => each !== undefined);
  });

  it("neither creates anything nor writes a status for a job that is managed by Kueue", async () => {
    await create({ managedBy: "kueue.x-k8s.io/multikueue" });
    // A later job has been handled, so the first one has been too.
    const later = await client.create(MPIJob, { ...manifest, metadata: { name: "later", namespace } });
    await watched(client, Job, `later-${later.metadata.uid.slice(0, 5)}-launcher`, (each) => each !== undefined);
    expect((await client.list(Job, { namespace })).items).toHaveLength(1);
    expect((await client.get(MPIJob, { namespace, name: "pi" })).status).toBeUndefined();
  });

  it("fails with a message if the launcher has no command", async () => {
    const template = { spec: { containers: [{ name: "l", image: "x" }] } };
    await create({}, { mpiReplicaSpecs: { Launcher: { template } } });
    const seen = await watched(client, MPIJob, "pi", (each) => each?.status?.jobStatus === "Failed");
    expect(seen?.status?.message).toContain("containers[0].command: Required value");
  });

  it("fails if a child's name belongs to another object", async () => {
    await operator.stop();
    const job = await create();
    const name = `pi-${job.metadata.uid.slice(0, 5)}-launcher`;
    const template = { spec: { restartPolicy: "Never" as const, containers: [{ name: "c", image: "x" }] } };
    await client.create(Job, { metadata: { name, namespace }, spec: { template } });
    operator = await startOperator({ operator: mpi, client, dataDir: "/nonexistent", flags: {} });
    const seen = await watched(client, MPIJob, "pi", (each) => each?.status?.jobStatus === "Failed");
    expect(seen?.status?.conditions?.find(({ type }) => type === "Failed")?.reason).toBe("NameTaken");
  });

  it.each([
    ["no replica specs", { mpiReplicaSpecs: undefined }, /mpiReplicaSpecs: Required value/],
    ["no launcher", { mpiReplicaSpecs: { Worker: manifest.spec.mpiReplicaSpecs.Worker } }, /Launcher: Required value/],
    ["two launchers", replicas("Launcher", { replicas: 2 }), /Launcher.replicas: Invalid value/],
    ["no workers in a worker spec", replicas("Worker", { replicas: 0 }), /Worker.replicas: Invalid value/],
    ["a restart policy of other kinds", replicas("Launcher", { restartPolicy: "Always" }), /restartPolicy: Unsupported value/],
    ["no container", replicas("Launcher", { template: { spec: { containers: [] } } }), /containers: Invalid value/],
    ["an unknown implementation", { mpiImplementation: "LAM" }, /mpiImplementation: Unsupported value/],
    ["a negative slot count", { slotsPerWorker: -1 }, /slotsPerWorker: Invalid value/],
    ["an unknown clean-up", { runPolicy: { cleanPodPolicy: "Some" } }, /cleanPodPolicy: Unsupported value/],
    ["a negative limit", { runPolicy: { backoffLimit: -1 } }, /backoffLimit: Invalid value/],
    ["a negative ttl", { runPolicy: { ttlSecondsAfterFinished: -1 } }, /ttlSecondsAfterFinished: Invalid value/],
    ["a negative deadline", { runPolicy: { activeDeadlineSeconds: -1 } }, /activeDeadlineSeconds: Invalid value/],
    ["an unknown manager", { runPolicy: { managedBy: "me" } }, /managedBy: Unsupported value/],
  ])("rejects %s", async (_, spec, message) => {
    await expect(client.create(MPIJob, { ...manifest, spec: { ...manifest.spec, ...spec } } as never)).rejects.toThrow(message);
  });
});

function replicas(role: "Launcher" | "Worker", change: object): object {
  const specs = manifest.spec.mpiReplicaSpecs;
  return { mpiReplicaSpecs: { ...specs, [role]: { ...specs[role], ...change } } };
}
